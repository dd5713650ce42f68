package trust

import (
	"context"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
)

// Rotate signs, with the key that a cluster has, which key succeeds it.
func Rotate(old *clusterkey.Key, next clusterkey.PublicKey, cluster string, now time.Time) (string, error) {
	return old.Sign(api.DocumentRotation, api.Rotation{
		Protocol: api.Protocol, Cluster: cluster, From: old.Public().String(), To: next.String(),
		Issued: metav1.NewTime(now.UTC().Truncate(time.Second)),
	})
}

// Rotated is when a rotation was signed, as it says itself; zero: it is none.
func Rotated(document string) time.Time {
	var claimed api.Rotation
	if unverified(document, &claimed) != nil {
		return time.Time{}
	}
	return claimed.Issued.Time
}

// Former are the keys that a cluster's key succeeded, oldest first: as far back as the rotations lead, without a gap and without
// coming to a key twice. Each step is signed by the key that it leaves, so it does not matter who shows them.
func Former(cluster string, key clusterkey.PublicKey, rotations []string) (former []market.Former) {
	seen := []clusterkey.PublicKey{key}
	for _, document := range slices.Backward(rotations[max(0, len(rotations)-api.MaxRotations):]) {
		from, ok := predecessor(cluster, seen[len(seen)-1], document)
		if !ok || slices.Contains(seen, from) {
			break
		}
		seen = append(seen, from)
		former = append(former, market.Former{Key: from.String(), Fingerprint: from.Fingerprint().String()})
	}
	slices.Reverse(former)
	return former
}

// Leaves says whether a cluster's key signed one of the rotations. Unlike [Former] it verifies one signature at most, however many rotations there are.
func Leaves(cluster, key string, rotations []string) bool {
	from, err := clusterkey.ParsePublicKey(key)
	if err != nil {
		return false
	}
	for _, document := range slices.Backward(rotations[max(0, len(rotations)-api.MaxRotations):]) {
		var r api.Rotation
		if err := clusterkey.Verify(document, api.DocumentRotation, from, &r); !errors.Is(err, clusterkey.ErrKey) {
			return err == nil && r.Cluster == cluster
		}
	}
	return false
}

// predecessor is the key that signed in a rotation that key of this cluster succeeds it.
func predecessor(cluster string, key clusterkey.PublicKey, document string) (from clusterkey.PublicKey, ok bool) {
	var claimed struct {
		From string `json:"from"`
	}
	if unverified(document, &claimed) != nil {
		return from, false
	}
	from, err := clusterkey.ParsePublicKey(claimed.From)
	if err != nil {
		return from, false
	}
	var r api.Rotation
	err = clusterkey.Verify(document, api.DocumentRotation, from, &r)
	return from, err == nil && r.Cluster == cluster && r.From == from.String() && r.To == key.String()
}

// Heir opens a card that shows a successor of the pinned key, and says which keys led to it; nil if it is no such card.
func Heir(signed, pinned string) (*api.Card, []market.Former) {
	card, key, err := Open(signed)
	if err != nil {
		return nil, nil
	}
	former := Former(card.Cluster, key, card.Rotations)
	if !slices.ContainsFunc(former, func(f market.Former) bool { return f.Key == pinned }) {
		return nil, nil
	}
	return card, former
}

// Greet meets a cluster again whose card shows a key that is new. Whom nobody has met is left to [Demand.Meet], and what a
// former key shows is old.
func (d Demand) Greet(ctx context.Context, m *exchange.Exchange, signed, cluster string) {
	key, err := shown(signed)
	if err != nil {
		return
	}
	if keys, err := Keys(ctx, m, cluster); err == nil && !slices.Contains(keys, key) {
		_, _, _ = d.Meet(ctx, m, signed, cluster) // who wants to know is told by Met
	}
}

// Sender is the cluster that a handshake message claims to be from.
func Sender(document string) (cluster string, err error) {
	var claimed struct {
		From string `json:"from"`
	}
	err = unverified(document, &claimed)
	return claimed.From, err
}

// Verified checks that the holder of one of the keys signed a document of this kind, and says which. An assignment has
// at most [api.MaxAssignment] bytes. Errors: BadSignature.
func Verified(document, kind string, into any, keys ...clusterkey.PublicKey) (clusterkey.PublicKey, error) {
	if kind == api.DocumentAssignment && len(document) > api.MaxAssignment {
		return clusterkey.PublicKey{}, api.Errorf(api.CodeBadSignature, "%s: it takes %d bytes, of at most %d", kind, len(document), api.MaxAssignment)
	}
	header, err := clusterkey.Peek(document)
	if err != nil {
		return clusterkey.PublicKey{}, api.Errorf(api.CodeBadSignature, "%s: %s", kind, err)
	}
	for _, key := range keys {
		if key.Fingerprint() != header.Key {
			continue
		}
		if err := clusterkey.Verify(document, kind, key, into); err != nil {
			var said struct {
				Protocol int `json:"protocol"`
			}
			if errors.Is(err, clusterkey.ErrPayload) && unverified(document, &said) == nil && said.Protocol > api.Protocol { // it has fields that nobody knows here
				return key, api.OtherProtocol(api.CodeBadSignature, "the "+kind, said.Protocol)
			}
			return key, api.Errorf(api.CodeBadSignature, "%s: %s", kind, err)
		}
		return key, nil
	}
	return clusterkey.PublicKey{}, api.Errorf(api.CodeBadSignature, "%s: by %s, which may not sign it", kind, header.Key)
}

// Vouch signs, with the key that a cluster has, that an assignment is in force, where another key signed the cluster's document of it:
// the assignment itself or its acceptance. It is empty where this key signed that.
func Vouch(key *clusterkey.Key, cluster, reservation, assignment, document string) (string, error) {
	if isBy(key.Public(), document) {
		return "", nil
	}
	return key.Sign(api.DocumentVouch, api.Vouch{
		Protocol: api.Protocol, Cluster: cluster, Reservation: reservation, Assignment: clusterkey.Digest(assignment).String(),
	})
}

// Vouched checks that the key that a cluster has vouches for an assignment. Errors: BadSignature.
func Vouched(document string, key clusterkey.PublicKey, cluster, reservation, assignment string) error {
	var v api.Vouch
	if _, err := Verified(document, api.DocumentVouch, &v, key); err != nil {
		return err
	}
	if v.Protocol < 1 || v.Protocol > api.Protocol || v.Cluster != cluster || v.Reservation != reservation || v.Assignment != clusterkey.Digest(assignment).String() {
		return api.Errorf(api.CodeBadSignature, "the vouch is for another assignment, or in a protocol that we do not speak")
	}
	return nil
}

// Parties are the keys that may end a reservation: those that the two clusters have, and the former ones by which they agreed to
// it. An end that was signed before a rotation still counts; what a former key signs ends nothing that was agreed to since.
func Parties(ctx context.Context, m *exchange.Exchange, r *market.Reservation) []clusterkey.PublicKey {
	return partyKeys(ctx, m, r, r.Consumer, r.Provider)
}

// Seller are the keys that may take a contract back: the one that its provider has, and the former one that accepted it.
func Seller(ctx context.Context, m *exchange.Exchange, r *market.Reservation) []clusterkey.PublicKey {
	return partyKeys(ctx, m, r, r.Provider)
}

func partyKeys(ctx context.Context, m *exchange.Exchange, r *market.Reservation, clusters ...string) (may []clusterkey.PublicKey) {
	for _, cluster := range clusters {
		keys, err := Keys(ctx, m, cluster)
		if err != nil {
			continue
		}
		for i, key := range keys {
			if i == 0 || isBy(key, r.Assignment) || isBy(key, r.Acceptance) {
				may = append(may, key)
			}
		}
	}
	return may
}

// isBy says whether a document that was verified before is by a key.
func isBy(key clusterkey.PublicKey, document string) bool {
	header, err := clusterkey.Peek(document)
	return err == nil && header.Key == key.Fingerprint()
}
