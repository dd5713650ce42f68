package resourceagent

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/atomicfile"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
)

// Secret is the secret from which the keys of legacy members are derived. Its holder can sign in their names.
type Secret []byte

const secretSize = 32

// openSecret reads the secret in a file, or makes it.
func openSecret(path string) (Secret, error) {
	secret, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		secret = make([]byte, secretSize)
		_, _ = rand.Read(secret) // never fails: see crypto/rand
		return secret, atomicfile.Write(path, secret)
	}
	if err == nil && len(secret) != secretSize {
		err = fmt.Errorf("%s has %d bytes, must have %d: restore it from a backup", path, len(secret), secretSize)
	}
	return secret, err
}

// key derives that of a cluster.
func (s Secret) key(cluster string) (*clusterkey.Key, error) {
	seed, err := hkdf.Key(sha256.New, s, nil, "bourse legacy member "+cluster, secretSize)
	if err != nil {
		return nil, err
	}
	return clusterkey.New(bytes.NewReader(seed))
}

// hasMembers reports whether a market has members whose keys were derived from a secret.
func hasMembers(v *market.View) bool {
	for slot := range v.Len() {
		if l := v.At(slot); !l.Gone() && l.Member.Legacy {
			return true
		}
	}
	return false
}

// deputy does in a legacy member's name what an agent would do: it signs what the member's calls
// mean, and gives the market the same commands as everybody.
type deputy struct {
	exchange *exchange.Exchange
	secret   Secret
}

// enroll lets a cluster that nobody knows wait for approval. Errors: NotMember, until it is approved.
func (d *deputy) enroll(ctx context.Context, cluster, source string) error {
	key, err := d.secret.key(cluster)
	if err != nil {
		return err
	}
	_, err = d.exchange.Do(ctx, market.Enroll{Cluster: cluster, Key: key.Public().String(), Source: source, Legacy: true})
	if err != nil && api.CodeOf(err) != api.CodeConflict {
		return err
	}
	return nil
}

// of is the key of a member. Errors: Conflict when it is not the one that the market knows.
func (d *deputy) of(l *market.Listing) (*clusterkey.Key, error) {
	key, err := d.secret.key(l.Cluster)
	if err == nil && key.Public().String() != l.Member.Key {
		err = api.Errorf(api.CodeConflict,
			"the broker's secret is not the one that the key of cluster %s was derived from", l.Cluster).
			Fix("ask the operator to copy the folder ca from where the broker ran before")
	}
	return key, err
}

// show makes a card of these properties what is shown of a member.
func (d *deputy) show(ctx context.Context, l *market.Listing, p api.Properties) error {
	if card := l.Member.Card; card != nil && card.Properties.Region == p.Region &&
		maps.Equal(card.Properties.Labels, p.Labels) {
		return nil
	}
	key, err := d.of(l)
	if err != nil {
		return err
	}
	card := api.Card{Cluster: l.Cluster, Key: l.Member.Key, Legacy: true,
		Number: max(l.Card().Number+1, time.Now().UnixMilli()), Properties: p}
	signed, err := key.Sign(api.DocumentCard, card)
	if err == nil {
		_, err = d.exchange.Do(ctx, market.PutCard{Card: card, Signed: signed})
	}
	return err
}

// mine are the reservations that a member takes part in and that are not over.
func (d *deputy) mine(ctx context.Context, cluster string) (all []*market.Reservation, err error) {
	err = d.exchange.Read(ctx, func(s *market.State) { all = s.Live(cluster) })
	return all, err
}

// sign signs, as the consumer, what is held for it.
func (d *deputy) sign(ctx context.Context, l *market.Listing) error {
	return d.each(ctx, l, func(r *market.Reservation, key *clusterkey.Key) (market.Command, error) {
		if r.Consumer != l.Cluster || r.State != api.Held || r.Assignment != "" {
			return nil, nil
		}
		provider := d.exchange.View().Listing(r.Provider)
		if provider == nil || provider.Member == nil {
			return nil, nil
		}
		providerKey, err := clusterkey.ParsePublicKey(provider.Member.Key)
		if err != nil {
			return nil, err
		}
		document, err := key.Sign(api.DocumentAssignment,
			market.AssignmentOf(r, key.Public().Fingerprint().String(), providerKey.Fingerprint().String()))
		return market.Confirm{ID: r.ID, Consumer: l.Cluster, Generation: r.Generation, Document: document}, err
	})
}

// cancel ends a reservation of a consumer, if it is not over.
func (d *deputy) cancel(ctx context.Context, l *market.Listing, id string) error {
	return d.each(ctx, l, func(r *market.Reservation, key *clusterkey.Key) (market.Command, error) {
		if r.ID != id {
			return nil, nil
		}
		end := api.End{
			Protocol: api.Protocol, Reservation: id, Generation: r.Generation,
			By: l.Cluster, Consumer: l.Cluster, Provider: r.Provider, Reason: api.ReasonCancelled,
		}
		if r.Assignment != "" {
			end.Assignment = clusterkey.Digest(r.Assignment).String()
		}
		document, err := key.Sign(api.DocumentEnd, end)
		return market.Release{ID: id, By: l.Cluster, Generation: r.Generation, Reason: end.Reason, Document: document}, err
	})
}

// fetch does what it means that a provider fetches its instructions: it accepts what is new, is
// free of what is over, and cannot change what it has. Then it returns those that it is to carry
// out.
func (d *deputy) fetch(ctx context.Context, l *market.Listing) (instructions []*market.Reservation, err error) {
	err = d.each(ctx, l, func(r *market.Reservation, key *clusterkey.Key) (market.Command, error) {
		assignment, generation := r.Asked()
		switch {
		case r.Provider != l.Cluster:
			return nil, nil
		case r.State == api.Releasing:
			return market.Free{ID: r.ID, Provider: l.Cluster}, nil
		case r.Changing() != nil:
			return market.Refuse{ID: r.ID, By: l.Cluster, Generation: generation, Reason: api.ReasonPolicy,
				Message: "its agent is of the prototypes, and cannot change what it was instructed"}, nil
		case r.State != api.Held || r.Assignment == "":
			return nil, nil
		}
		document, err := key.Sign(api.DocumentAcceptance, api.Acceptance{
			Protocol: api.Protocol, Reservation: r.ID, Generation: generation, Consumer: r.Consumer, Provider: l.Cluster,
			Assignment: clusterkey.Digest(assignment).String(),
			Expires:    metav1.NewTime(r.HeldUntil.Go().Add(market.SkewGrace).Truncate(time.Second)),
		})
		return market.Accept{ID: r.ID, Provider: l.Cluster, Generation: generation, Document: document}, err
	})
	if err != nil {
		return nil, err
	}
	all, err := d.mine(ctx, l.Cluster)
	for _, r := range all {
		if r.Provider == l.Cluster && r.Bound() {
			instructions = append(instructions, r)
		}
	}
	return instructions, err
}

// each does the command, if there is one, that do makes of each of a member's reservations. One
// that has moved on meanwhile is left for the next time.
func (d *deputy) each(ctx context.Context, l *market.Listing,
	do func(*market.Reservation, *clusterkey.Key) (market.Command, error)) error {
	all, err := d.mine(ctx, l.Cluster)
	if err != nil || len(all) == 0 {
		return err
	}
	key, err := d.of(l)
	if err != nil {
		return err
	}
	for _, r := range all {
		command, err := do(r, key)
		if err != nil {
			return err
		}
		if command == nil {
			continue
		}
		if _, err := d.exchange.Do(ctx, command); err != nil && api.CodeOf(err) != api.CodeConflict &&
			api.CodeOf(err) != api.CodeNotFound {
			return err
		}
	}
	return nil
}

// counted is what a provider's agent has already taken from what it calls available: what it was
// instructed so long ago that it has advertised since. What it may not have taken yet is not in it:
// that errs low.
func (d *deputy) counted(ctx context.Context, cluster string) (sum amounts.List, err error) {
	all, err := d.mine(ctx, cluster)
	for _, r := range all {
		if r.Provider == cluster && r.Bound() && d.exchange.Now().Go().Sub(r.Changed.Go()) >= market.Lease {
			sum = sum.Plus(r.Size)
		}
	}
	return sum, err
}
