package doctor

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/sharing"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/market"
)

// Sharing looks whether this cluster has what it shares and reserved.
type Sharing struct {
	Cluster string
	Ledger  *exchange.Exchange
	Policy  interface {
		// Sharing returns the SharingPolicy in force, nil if there is none.
		Sharing() *api.Sharing
		// UnknownBrokers returns the brokers that it names and that this cluster has not joined.
		UnknownBrokers() []string
	}
}

// Find looks.
func (c Sharing) Find(ctx context.Context) (found []api.Problem, _ error) {
	policy := c.Policy.Sharing()
	if policy == nil {
		return []api.Problem{health.NothingShared.Of("", "to lend, create one: docs/objects/sharingpolicy.yaml",
			"no SharingPolicy named default is in force")}, nil
	}
	for _, f := range sharing.IgnoredFields(policy) {
		found = append(found, health.FieldIgnored.Of("SharingPolicy "+f.Path, f.Remedy, "the field has no effect"))
	}
	for _, name := range c.Policy.UnknownBrokers() {
		found = append(found, health.UnknownBroker.Of("broker "+name, sharing.UnknownRemedy(name),
			"the SharingPolicy names it in brokers, and this cluster has not joined it"))
	}
	if policy.Hub() != nil {
		if err := c.Ledger.Read(ctx,
			func(s *market.State) { found = append(found, findInHub(s, c.Cluster)...) }); err != nil {
			return found, err
		}
	}
	l := c.Ledger.View().Listing(c.Cluster)
	if l == nil {
		return found, nil
	}
	for _, p := range l.Pools {
		if !p.Available.Negative() {
			continue
		}
		m := l.Measured.Pools[p.Name]
		if left := m.Allocatable.Minus(m.Allocated).Minus(p.Reserved).Only(p.Reserved); left.Negative() {
			found = append(found, health.NotCovered.Of("pool "+p.Name, "move the cluster's own pods, or add nodes",
				"allocatable, less its own pods and the reservations, leaves %s", belowZero(left)))
		} else {
			found = append(found, health.Overcommitted.Of("pool "+p.Name,
				"share more in the SharingPolicy, or wait until reservations end", "available: %s", belowZero(p.Available)))
		}
	}
	return found, nil
}

// belowZero returns the amounts below 0.
func belowZero(a market.Amounts) string {
	var out []string
	for name, amount := range a.Resources() {
		if amount.Sign() < 0 {
			out = append(out, amount.String()+" "+string(name))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// Ledger is what the doctor reads of a Ledger.
type Ledger interface {
	Size() journal.Size
	Read(ctx context.Context, look func(*market.State)) error
}

// Ledgers looks whether each Ledger still takes in anything new, and which consumer takes most of
// it. The key is the name of its object.
type Ledgers map[string]Ledger

// Find looks.
func (c Ledgers) Find(ctx context.Context) (found []api.Problem, _ error) {
	for name, ledger := range c {
		size, most := ledger.Size(), "nobody"
		if size.Use() < exchange.Crowded {
			continue
		}
		_ = ledger.Read(ctx, func(s *market.State) { most = cmp.Or(s.LargestConsumer(), most) })
		found = append(found, health.LedgerCrowded.Of("ledger "+name,
			"release or evict what nobody needs (bourse reservations, bourse evict), or wait until some of it ends",
			"it uses %s; of its consumers, %s takes most", size, most))
	}
	return found, nil
}
