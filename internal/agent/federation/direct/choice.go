package direct

import (
	"context"
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/market"
)

// RecordChoice records which providers this cluster chose at a broker, nil for all. A purchase at a connector
// honours that, also while the broker is lost. via names the broker.
func (s *Sellers) RecordChoice(ctx context.Context, via string, providers *[]string) {
	s.choosing.Lock()
	defer s.choosing.Unlock()
	s.choices[via] = providers
	if err := s.record(ctx, via); err != nil {
		s.Log.Warn("which providers this cluster chose at its broker cannot be recorded",
			"broker", session.BrokerName(via), "error", err)
	}
}

// record writes a choice into the Ledger. The broker does not repeat it, so that Run tries again what the Ledger
// could not write now. The caller holds choosing. Errors: those of the Ledger.
func (s *Sellers) record(ctx context.Context, via string) error {
	choose := market.Choose{Consumer: s.Cluster, Via: via, Providers: s.choices[via]}
	_, err := s.Ledger.Do(ctx, choose)
	if api.CodeOf(err) != api.CodeUnavailable {
		delete(s.choices, via)
	}
	return err
}

// recordRest writes the choices that the Ledger could not write before.
func (s *Sellers) recordRest(ctx context.Context) {
	s.choosing.Lock()
	defer s.choosing.Unlock()
	for via := range s.choices {
		_ = s.record(ctx, via)
	}
}

// isChosen reports whether this cluster's choices at its brokers permit a seller.
func (s *Sellers) isChosen(ctx context.Context, seller string) bool {
	return len(s.FindDisabled(ctx, []string{seller})) == 0
}

// FindDisabled returns those of the providers that this cluster's choices at its brokers do not permit. The choice at a
// broker that the admin has disabled or removed does not count.
func (s *Sellers) FindDisabled(ctx context.Context, providers []string) []string {
	enabled := map[string]bool{}
	for _, session := range s.Sessions.Brokers() {
		enabled[session.Via] = true
	}
	counts := func(via string) bool { return enabled[via] }
	chose, err := s.Ledger.Member(ctx, s.Cluster)
	if err != nil {
		return providers
	}
	return slices.DeleteFunc(slices.Clone(providers), func(name string) bool { return chose.Chose(name, counts) })
}
