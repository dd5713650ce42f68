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

// Rotate signs, with the cluster's current key, which key succeeds it.
func Rotate(old *clusterkey.Key, next clusterkey.PublicKey, cluster string, now time.Time) (string, error) {
	return old.Sign(api.DocumentRotation, api.Rotation{
		Protocol: api.Protocol, Cluster: cluster, From: old.Public().String(), To: next.String(),
		Issued: metav1.NewTime(now.UTC().Truncate(time.Second)),
	})
}

// Rotated returns the time at which a rotation says it was signed; zero if it is not a rotation.
func Rotated(document string) time.Time {
	var claimed api.Rotation
	if unverified(document, &claimed) != nil {
		return time.Time{}
	}
	return claimed.Issued.Time
}

// Former returns the keys that a cluster's key succeeded, oldest first, as far back as the rotations
// form a chain without a gap or a repeated key. The key that each step replaces has signed it, so it
// does not matter who sends the rotations.
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

// SignedRotation reports whether a cluster's key signed one of the rotations. Unlike [Former], it verifies one
// signature at most, however many rotations there are.
func SignedRotation(cluster, key string, rotations []string) bool {
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

// predecessor returns the key that signed, in a rotation, that key of this cluster succeeds it.
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

// FindSuccessor opens a card with a successor of the pinned key and returns the keys that led to it; nil if the
// card has no such key.
func FindSuccessor(signed, pinned string) (*api.Card, []market.Former) {
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

// Greet meets a known cluster again if its card shows a new key or another number of namespaces. It ignores an
// unknown cluster, which [Demand.Meet] handles, and a card with a former key, which is old.
func (d Demand) Greet(ctx context.Context, m *exchange.Exchange, signed, cluster string) {
	key, namespaces, err := shown(signed)
	if err != nil {
		return
	}
	keys, err := Keys(ctx, m, cluster)
	if err != nil {
		return
	}
	var known *market.Member
	if err := m.Read(ctx, func(s *market.State) { known = s.Member(cluster) }); err != nil || known == nil {
		return
	}
	if !slices.Contains(keys, key) || known.Key == key.String() && known.MaxNamespaces != namespaces {
		_, _, _ = d.Meet(ctx, m, signed, cluster) // Met reports the result
	}
}

// Sender returns the cluster that a handshake message claims as its sender.
func Sender(document string) (cluster string, err error) {
	var claimed struct {
		From string `json:"from"`
	}
	err = unverified(document, &claimed)
	return claimed.From, err
}

// Verified checks that the holder of one of the keys signed a document of this kind, and returns that
// key. An assignment has at most [api.MaxAssignment] bytes. Errors: BadSignature.
func Verified(document, kind string, into any, keys ...clusterkey.PublicKey) (clusterkey.PublicKey, error) {
	if kind == api.DocumentAssignment && len(document) > api.MaxAssignment {
		return clusterkey.PublicKey{}, api.Errorf(api.CodeBadSignature,
			"%s: it takes %d bytes, of at most %d", kind, len(document), api.MaxAssignment)
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
			var claimed struct {
				Protocol int `json:"protocol"`
			}
			// it has fields that nobody knows here
			if errors.Is(err, clusterkey.ErrPayload) && unverified(document, &claimed) == nil &&
				claimed.Protocol > api.Protocol {
				return key, api.OtherProtocol(api.CodeBadSignature, "the "+kind, claimed.Protocol)
			}
			return key, api.Errorf(api.CodeBadSignature, "%s: %s", kind, err)
		}
		return key, nil
	}
	return clusterkey.PublicKey{}, api.Errorf(api.CodeBadSignature, "%s: by %s, which may not sign it", kind, header.Key)
}

// Vouch signs, with a cluster's current key, that an assignment is in force if a former key signed the
// cluster's document: the assignment itself or its acceptance. It is empty if the current key signed it.
func Vouch(key *clusterkey.Key, cluster, reservation, assignment, document string) (string, error) {
	if isBy(key.Public(), document) {
		return "", nil
	}
	return key.Sign(api.DocumentVouch, api.Vouch{
		Protocol: api.Protocol, Cluster: cluster, Reservation: reservation,
		Assignment: clusterkey.Digest(assignment).String(),
	})
}

// Vouched checks that a cluster's current key vouches for an assignment. Errors: BadSignature.
func Vouched(document string, key clusterkey.PublicKey, cluster, reservation, assignment string) error {
	var v api.Vouch
	if _, err := Verified(document, api.DocumentVouch, &v, key); err != nil {
		return err
	}
	if v.Protocol < 1 || v.Protocol > api.Protocol || v.Cluster != cluster ||
		v.Reservation != reservation || v.Assignment != clusterkey.Digest(assignment).String() {
		return api.Errorf(api.CodeBadSignature, "the vouch is for another assignment or in an unsupported protocol")
	}
	return nil
}

// Parties returns the keys that may end a reservation, by cluster: the current keys of the two, and the
// former ones with which they agreed to it. An end that was signed before a rotation still counts. A
// former key cannot end what was agreed with a later one.
func Parties(ctx context.Context, m *exchange.Exchange, r *market.Reservation) map[string][]clusterkey.PublicKey {
	return map[string][]clusterkey.PublicKey{
		r.Consumer: partyKeys(ctx, m, r, r.Consumer), r.Provider: partyKeys(ctx, m, r, r.Provider),
	}
}

// Seller returns the keys that may reclaim a contract: the current key of its provider, and the former
// one that accepted it.
func Seller(ctx context.Context, m *exchange.Exchange, r *market.Reservation) []clusterkey.PublicKey {
	return partyKeys(ctx, m, r, r.Provider)
}

func partyKeys(ctx context.Context, m *exchange.Exchange, r *market.Reservation,
	cluster string) (may []clusterkey.PublicKey) {
	keys, err := Keys(ctx, m, cluster)
	if err != nil {
		return nil
	}
	for i, key := range keys {
		if i == 0 || isBy(key, r.Assignment) || isBy(key, r.Acceptance) {
			may = append(may, key)
		}
	}
	return may
}

// isBy reports whether a key signed a document that was verified before.
func isBy(key clusterkey.PublicKey, document string) bool {
	header, err := clusterkey.Peek(document)
	return err == nil && header.Key == key.Fingerprint()
}
