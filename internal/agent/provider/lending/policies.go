package lending

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
)

const (
	// proofLasts is how long the proof that the policies deny holds for a peering that is open already.
	proofLasts = time.Minute
	// openingLasts is how long it holds for one that opens. Each opening proves again, but not at
	// each of its steps.
	openingLasts = 2 * time.Second
	// proveWithin bounds a proof.
	proveWithin = time.Minute
)

// proof is whether the policies hold a consumer to what it reserved.
type proof struct {
	begun time.Time
	holds func() error // waits for it
}

// proves reports whether the last proof still counts.
func (l *Lending) proves(s *state) bool {
	lasts := openingLasts
	if s.open {
		lasts = proofLasts
	}
	return s.proof.holds != nil && l.options.Clock.Since(s.proof.begun) <= lasts
}

// prove begins a proof. It runs while the consumer signs its nonce.
func (l *Lending) prove(ctx context.Context, consumer string) proof {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), proveWithin)
	holds := sync.OnceValue(func() error {
		defer cancel()
		if err := l.options.Policies.InForce(ctx); err != nil {
			return err
		}
		bindings, err := posture.ReadBindings(ctx, l.options.Reader)
		if found := bindings.Colliding(consumer); err == nil && len(found) > 0 {
			return api.Errorf(api.CodeConflict, "%s: %s", found[0].Code, found[0].Detail).Fix("%s", found[0].Remedy)
		}
		return err
	})
	go func() { _ = holds() }()
	return proof{l.options.Clock.Now(), holds}
}

// listing is what the policies know of a consumer, and since when.
type listing struct {
	at      time.Time
	demands *posture.Demands
	slices  []posture.Slice
}

// list puts a consumer under the policies before it can do anything. It does not repeat what it did a moment
// ago.
func (l *Lending) list(ctx context.Context, s *state, consumer string) (err error) {
	now := listing{at: l.options.Clock.Now()}
	if sharing := l.options.Sharing(); sharing != nil {
		now.demands = &posture.Demands{}
		if n := sharing.Namespaces; n != nil {
			now.demands = &posture.Demands{Limits: n.RequireLimits, Annotations: n.Annotations, Namespaces: int(n.Max)}
		}
		now.demands.Plain = sharing.NamesPlain(consumer)
	}
	if now.slices, err = l.slices(ctx, consumer); err != nil {
		return err
	}
	before := s.listed
	if now.at.Sub(before.at) < openingLasts && reflect.DeepEqual(now.demands, before.demands) &&
		reflect.DeepEqual(now.slices, before.slices) {
		return nil
	}
	s.listed = listing{}
	if err := l.options.Policies.List(ctx, consumer, now.demands, now.slices); err != nil {
		return err
	}
	s.listed = now
	return nil
}
