package liqo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// A whole trade: published by one cluster, seen and bought by another, the same contract on both, a
// virtual node of exactly what the plan sells, pods on it; and once it is cancelled nothing is left
// but the record.
func TestTrade(t *testing.T) {
	w := start(t)
	w.sells(t, w.milan, "web", "2", "4Gi")
	w.trades(t, "trade")
	w.withdraws(t, w.milan, "web")
}

// The same after the broker was killed: the purchase, the handshake of the peering and the end go
// from connector to connector. When it is back, its books agree.
func TestTradeWithoutTheBroker(t *testing.T) {
	w := start(t)
	w.sells(t, w.milan, "web", "2", "4Gi")
	met := w.buys(t, w.rome, w.milan, "met", w.sees(t, w.rome, w.milan, "web")) // those who trade directly know each other
	met.becomes(api.Active)
	met.release()
	w.nothingLeft(t, w.rome, w.milan)

	w.Broker.Kill()
	t.Cleanup(func() { // where it failed: the next test needs it
		select {
		case <-w.Broker.Done():
			if err := w.StartBroker(context.Background()); err != nil {
				t.Error(err)
			}
		default:
		}
	})
	w.romeIsAlone(t)
	direct := w.trades(t, "direct")

	if err := w.StartBroker(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, m := range w.Members {
		if err := m.AwaitConnected(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the broker counts nothing of what is over", func(ctx context.Context) error {
		if r, err := w.Operator.Reservation(ctx, direct); err == nil && !r.Payload.State.Over() {
			return fmt.Errorf("it is %s", r.Payload.State)
		}
		milan, err := w.Operator.Cluster(ctx, "milan")
		if err != nil {
			return err
		}
		if reserved := milan.Payload.Pools[api.GeneralPool].Reserved; !reserved.Cpu().IsZero() {
			return fmt.Errorf("%s CPU of milan are reserved", reserved.Cpu())
		}
		return nil
	})
	w.withdraws(t, w.milan, "web")
}

// romeIsAlone waits until rome sees that the broker is away.
func (w *world) romeIsAlone(t *testing.T) {
	t.Helper()
	eventually(t, "rome sees that the broker is away", func(ctx context.Context) error {
		s, err := w.rome.People(0).Status(ctx)
		if err == nil && s.Connected {
			err = fmt.Errorf("it is connected")
		}
		return err
	})
}

// trades takes two units of milan's plan to rome and back, and returns the reservation's ID.
func (w *world) trades(t *testing.T, name string) string {
	t.Helper()
	a := w.buys(t, w.rome, w.milan, name, w.sees(t, w.rome, w.milan, "web"))
	a.becomes(api.Active)
	bought := w.agree(t, a.request.Status.Reservation)
	terms := w.verifies(t, bought)
	if terms.Buyer != "rome" || terms.Seller != "milan" || terms.Units != 2 || terms.Price.Amount != "0.10" {
		t.Errorf("what was signed is %+v", terms)
	}
	var node corev1.Node
	if err := w.rome.Objects.Get(t.Context(), kube.ObjectKey{Name: market.SliceName("rome", "milan", api.GeneralPool)},
		&node); err != nil {
		t.Fatal(err)
	}
	for resource, amount := range amounts("4", "8Gi") { // two of 2 CPU and 4Gi
		if got := node.Status.Allocatable[resource]; got.Cmp(amount) != 0 || got.Cmp(terms.Resources[resource]) != 0 {
			t.Errorf("the virtual node has %s %s, bought were %s, signed %+v",
				got.String(), resource, amount.String(), terms.Resources)
		}
	}
	a.run(5, "500m", "256Mi")
	a.running(w.milan, 5)
	w.cancels(t, a)
	w.nothingLeft(t, w.rome, w.milan)
	return a.request.Status.Reservation
}

// sells puts an offer with one plan on sale: four units of that size, and any number of them in one contract.
func (w *world) sells(t *testing.T, seller *federation.Member, name, cpu, memory string) {
	t.Helper()
	if _, err := seller.People(0).PutOffer(t.Context(), name, api.OfferSpec{Type: "compute", Plans: []api.Plan{{
		Name: "small", Resources: amounts(cpu, memory), Quantity: 4, Units: &api.Units{Min: 1, Max: 4},
		Price: &api.Price{Amount: "0.10", Currency: "EUR", Period: api.PeriodHour},
	}}}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) withdraws(t *testing.T, seller *federation.Member, name string) {
	t.Helper()
	if err := seller.People(0).DeleteOffer(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

// sees waits until a buyer sees an offer as its seller has it on sale now, not one of that name
// before it, with all of its units left.
func (w *world) sees(t *testing.T, buyer, seller *federation.Member, name string) (offer api.Envelope[api.Listing]) {
	t.Helper()
	eventually(t, buyer.Name+" sees what "+seller.Name+" sells", func(ctx context.Context) error {
		own, err := seller.People(0).Offers(ctx)
		if err != nil {
			return err
		}
		offer, err = buyer.People(0).Offer(ctx, seller.Name, name)
		if err == nil && !slices.ContainsFunc(own, func(o api.Envelope[api.OwnOffer]) bool {
			return o.ID == name && o.Payload.Status.Digest == offer.Payload.Digest
		}) {
			err = fmt.Errorf("it sees version %d", offer.Payload.Version)
		}
		if err == nil && offer.Payload.Plans["small"].Remaining != 4 {
			err = fmt.Errorf("left are %+v", offer.Payload.Plans)
		}
		return err
	})
	return offer
}

// buys makes a request for two units of a plan, for ten hours, that offloads its namespace.
func (w *world) buys(t *testing.T, buyer, seller *federation.Member,
	name string, offer api.Envelope[api.Listing]) *asked {
	t.Helper()
	return w.ask(t, buyer, seller, name, nil, func(r *api.ResourceRequest) {
		r.Spec.Resources, r.Spec.Target = nil, ""
		r.Spec.Duration = &metav1.Duration{Duration: 10 * time.Hour}
		r.Spec.Purchase = &api.Purchase{Seller: seller.Name, Offer: offer.Payload.Name,
			Plan: "small", Units: 2, Digest: offer.Payload.Digest}
	})
}

// agree waits until both parties have the same contract, and returns it.
func (w *world) agree(t *testing.T, reservation string) (bought api.Deal) {
	t.Helper()
	of := func(m *federation.Member) (deal api.Deal, err error) {
		all, err := m.People(0).Contracts(t.Context())
		for _, d := range all {
			if d.Payload.Spec.Reservation == reservation {
				deal = d.Payload
			}
		}
		return deal, err
	}
	eventually(t, "both have the contract", func(context.Context) (err error) {
		if bought, err = of(w.rome); err != nil {
			return err
		}
		sold, err := of(w.milan)
		if err == nil && (bought.Spec.Assignment == "" || bought.Spec != sold.Spec ||
			bought.Status.Cost != "2.00 EUR" || sold.Status.Cost != bought.Status.Cost) {
			err = fmt.Errorf("bought %+v, sold %+v", bought, sold)
		}
		return err
	})
	return bought
}

// verifies checks a contract as anybody can: by a file and the binary, which reaches no agent and no broker.
func (w *world) verifies(t *testing.T, deal api.Deal) (terms api.ContractTerms) {
	t.Helper()
	text, err := yaml.Marshal(deal.Spec)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "contract.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	verify := func() ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), w.Binary, "contract", "verify", file, "-o", "json")
		cmd.Dir, cmd.Env = t.TempDir(), []string{"HOME=" + t.TempDir()}
		return cmd.Output()
	}
	out, err := verify()
	if err != nil {
		t.Fatalf("bourse contract verify: %v", err)
	}
	if err := yaml.UnmarshalStrict(out, &terms); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if err := os.WriteFile(file, bytes.Replace(text, []byte("acceptance: ey"), []byte("acceptance: eY"), 1),
		0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := verify(); err == nil {
		t.Errorf("one that was written in is verified: %s", out)
	}
	return terms
}

// cancels ends a contract before its time, by deleting the request that bought, and waits until
// both parties have the record of it.
func (w *world) cancels(t *testing.T, a *asked) {
	t.Helper()
	if err := a.from.Objects.Delete(t.Context(), a.request.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*federation.Member{w.rome, w.milan} {
		eventually(t, "the record of "+m.Name+" says that it is over", func(ctx context.Context) error {
			all, err := m.People(0).Contracts(ctx)
			for _, d := range all {
				if s := d.Payload.Status; d.Payload.Spec.Reservation == a.request.Status.Reservation &&
					s.State == api.Released && s.Ended != nil {
					return err
				}
			}
			return fmt.Errorf("%d contracts, %v", len(all), err)
		})
	}
}
