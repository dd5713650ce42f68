package doctor

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/provider/sharing"
	"github.com/bourse-dev/bourse/internal/amounts"
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
		// Invalid returns why the newest SharingPolicy is not in force, nil if it is or there is none.
		Invalid() error
		// Refusals returns what brokers refuse of what this cluster shows.
		Refusals() sharing.Refusals
	}
}

// Find looks.
func (c Sharing) Find(ctx context.Context) (found []api.Problem, _ error) {
	refusals := c.Policy.Refusals()
	for _, name := range slices.Sorted(maps.Keys(refusals)) {
		found = append(found, health.AdvertisementRefused.Of("broker "+name,
			cmp.Or(remedyOf(refusals[name]), "mend what the message names"), "%s", refusals[name]))
	}
	policy := c.Policy.Sharing()
	if err := c.Policy.Invalid(); err != nil {
		return append(found, health.PolicyInvalid.Of("SharingPolicy default",
			cmp.Or(remedyOf(err), "correct the field that the message names: kubectl edit sharingpolicy default"), "%s", err)), nil
	}
	if policy == nil {
		return append(found, health.NothingShared.Of("", "to lend, create one: docs/objects/sharingpolicy.yaml",
			"no SharingPolicy named default is in force")), nil
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

// remedyOf returns the remedy of an error, empty if it names none.
func remedyOf(err error) string {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e.Remedy
	}
	return ""
}

// Offers looks whether the Offers of this cluster are on sale as written.
type Offers struct {
	client.Client
	Namespace string
}

// Find returns a problem for each Offer with a field that is not valid, or that a broker refuses.
func (c Offers) Find(ctx context.Context) (found []api.Problem, _ error) {
	var offers api.OfferList
	if err := c.List(ctx, &offers, client.InNamespace(c.Namespace)); err != nil {
		return nil, err
	}
	for _, o := range offers.Items {
		ready := meta.FindStatusCondition(o.Status.Conditions, api.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionFalse {
			continue
		}
		switch api.Code(ready.Reason) {
		case api.CodeInvalid, api.CodeTooLarge, api.CodeConflict, api.CodeForbidden, api.CodeBadSignature,
			api.CodeKeyChanged, api.CodeCapReached, api.CodeLedgerFull:
			found = append(found, health.OfferRefused.Of("Offer "+o.Name, "", "%s", ready.Message).
				By("", "bourse", "offer", "edit", o.Name))
		}
	}
	return found, nil
}

// belowZero returns the amounts below 0.
func belowZero(a amounts.List) string {
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
