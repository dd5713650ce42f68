package federation_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/sim/federation"
)

// reinstall installs the agent of a member again, which has lost its key and all that it remembered.
func (f *fair) reinstall(m *federation.Member) {
	f.t.Helper()
	f.StopMember(m.Name)
	if err := os.RemoveAll(filepath.Join(f.Dir, m.Name)); err != nil {
		f.t.Fatal(err)
	}
	for _, list := range []kube.ObjectList{&api.LedgerList{}, &api.PeerList{}, &api.ResourceRequestList{}, &api.ContractList{}} {
		if err := m.Objects.List(f.t.Context(), list); err != nil {
			f.t.Fatal(err)
		}
		_ = meta.EachListItem(list, func(o runtime.Object) error {
			object := o.(kube.Object)
			object.SetFinalizers(nil)
			_ = m.Objects.Update(f.t.Context(), object)
			return m.Objects.Delete(f.t.Context(), object)
		})
	}
	f.StartMember(m.Name)
	f.until("the agent of "+m.Name+" listens again", func() bool {
		s, err := m.People.Status(f.t.Context())
		return err == nil && s.Fingerprint != ""
	})
}

// buysDirectly makes a purchase at milan's connector, waits until its status holds, and returns its reservation.
func (f *fair) buysDirectly(name string, holds func(api.ResourceRequestStatus) bool) (reservation string) {
	f.t.Helper()
	request := api.Request{Duration: &metav1.Duration{Duration: time.Hour}, Purchase: &api.Purchase{Seller: "milan",
		Offer: "web", Plan: "small", MaxPrice: webOffer("0.10").Plans[0].Price}}
	must(f.rome.People.MakeRequest(f.t.Context(), api.RequestCreate{Name: name, Request: request, Via: api.ViaDirect}))(f.t)
	f.becomes(f.rome, name, func(s api.ResourceRequestStatus) bool { reservation = s.Reservation; return holds(s) })
	return reservation
}

func isReserved(s api.ResourceRequestStatus) bool { return s.State == api.Reserved }

// A seller that was installed again has another key at the same address. The buyer says so with the remedy, agrees
// on nothing, and trusts the new key only after its admin named it.
func TestReinstalledSeller(t *testing.T) {
	t.Parallel()
	f := strangers(t)
	f.meet()
	f.buysDirectly("before", isReserved)
	before := f.fingerprint(f.milan)
	f.reinstall(f.milan)
	must(f.milan.People.AddPeer(t.Context(), "rome", f.fingerprint(f.rome), ""))(t)
	f.until("rome says that milan has another key", func() bool {
		_, _ = f.rome.People.Catalog(t.Context(), api.CatalogQuery{})
		c := f.trusts(f.rome, "milan")
		return c.Reason == string(api.CodeKeyChanged) && strings.Contains(c.Message, "bourse peers add milan --fingerprint")
	})
	f.buysDirectly("refused", func(s api.ResourceRequestStatus) bool {
		if isReserved(s) {
			t.Errorf("a purchase from another key: %+v", s)
		}
		return strings.Contains(s.Message, "bourse peers add milan") || isReserved(s)
	})
	for _, p := range must(f.rome.People.Peers(t.Context()))(t) {
		if p.ID == "milan" && p.Payload.Status.Fingerprint != before {
			t.Errorf("the key %s is pinned unasked", p.Payload.Status.Fingerprint)
		}
	}
	must(f.rome.People.AddPeer(t.Context(), "milan", f.fingerprint(f.milan), ""))(t)
	f.until("rome has met the new milan", func() bool { return f.trusts(f.rome, "milan").Reason == "Confirmed" })
	f.becomes(f.rome, "refused", isReserved)
}

// A buyer that was installed again gets nothing before the seller's admin named its new key, and learns what to ask
// for. Then it buys. What it had bought with the lost key stays, until its time or milan's admin ends it.
func TestReinstalledBuyer(t *testing.T) {
	t.Parallel()
	f := strangers(t)
	f.meet()
	lost := f.buysDirectly("before", isReserved)
	f.reinstall(f.rome)
	must(f.rome.People.AddPeer(t.Context(), "milan", f.fingerprint(f.milan), f.milan.Address))(t)
	f.until("rome learns what to ask milan's admin for", func() bool {
		return strings.Contains(f.trusts(f.rome, "milan").Message, "bourse peers add rome --fingerprint "+f.fingerprint(f.rome))
	})
	must(f.milan.People.AddPeer(t.Context(), "rome", f.fingerprint(f.rome), ""))(t)
	f.until("they have met", func() bool { return f.trusts(f.rome, "milan").Reason == "Confirmed" })
	if d := f.contractsOf(f.milan)[lost]; d.Status.State != api.Reserved {
		t.Errorf("what milan promised to the lost key: %+v", d.Status)
	}
	f.evicts(f.milan, "rome")
	f.until("milan ended what the lost key bought", func() bool {
		return f.contractsOf(f.milan)[lost].Status.State == api.Released
	})
	f.until("rome reads milan's catalog", func() bool {
		found, err := f.rome.People.Catalog(t.Context(), api.CatalogQuery{})
		return err == nil && len(found) == 1 && found[0].Payload.Plans["small"].Remaining == 3
	})
	f.buysDirectly("after", isReserved)
}
