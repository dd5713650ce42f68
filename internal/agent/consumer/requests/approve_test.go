package requests_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// The provider's card says that an admin approves. The consumer signs that its assignment waits so
// long, and waits.
func TestAwaitsApproval(t *testing.T) {
	d := newDesk(t)
	d.create(nil)
	deal := d.deal()
	held := deal.ByHand(3 * time.Hour)
	d.wish = nil
	d.borrower.offers(deal.Shown)
	d.takes(deal)
	d.reconcile()
	var a api.Assignment
	if err := clusterkey.Verify(deal.Shown().Payload.Assignment,
		api.DocumentAssignment, d.rome.Key.Public(), &a); err != nil || !a.Expires.Equal(&held.Payload.ApproveBy) {
		t.Fatalf("it signed %+v, %v", a, err)
	}
	o, _ := d.reconcile()
	by := held.Payload.ApproveBy.UTC().Format(time.RFC3339)
	if c := meta.FindStatusCondition(o.Status.Conditions, api.ConditionAwaitsApproval); c == nil ||
		c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "milan's admin until "+by) {
		t.Errorf("it shows %+v", o.Status)
	}
	d.broker.Asked()
	d.hears(deal.Shown())
	d.move(20 * time.Minute) // longer than any machine takes
	d.holds(api.Held, "")
	d.hears(deal.Reserved(""))
	d.holds(api.Reserved, "")
	o, _ = d.reconcile()
	if c := meta.FindStatusCondition(o.Status.Conditions, api.ConditionAwaitsApproval); c == nil ||
		c.Status != metav1.ConditionFalse {
		t.Errorf("it still waits: %+v", o.Status)
	}
}

// The broker's word alone makes nobody wait, nor for longer than the provider says.
func TestALyingBrokerMakesItWait(t *testing.T) {
	for name, lie := range map[string]func(d *transporttest.Deal, r *transport.Reservation){
		"with no word of the provider's": func(d *transporttest.Deal, r *transport.Reservation) {
			r.Payload.ProviderCard = d.Provider.Card(api.Properties{})
		},
		"for longer": func(_ *transporttest.Deal, r *transport.Reservation) {
			r.Payload.ApproveBy = later(r.Payload.ApproveBy, time.Hour)
		},
	} {
		b := newBorrower(t)
		d := b.deal()
		held := d.ByHand(3 * time.Hour)
		lie(d, held)
		b.offers(func() *transport.Reservation { return held })
		t.Log(name)
		b.refusesToAsk(api.CodeBadSignature)
	}
}

// A contract without a notice cannot be taken back: not by the seller, and not by the broker in its name.
func TestNotReclaimed(t *testing.T) {
	b := newBorrower(t)
	d := b.bound()
	shown := *d.Shown()
	word := api.Reclaim{Protocol: api.Protocol, Reservation: "r-1", Consumer: "rome", Provider: "milan",
		Issued: transporttest.Seconds(b.now()), Effective: transporttest.Seconds(b.now().Add(10 * time.Minute))}
	for _, document := range []string{b.milan.Sign(api.DocumentReclaim, word),
		b.rome.Sign(api.DocumentReclaim, word), "nonsense"} {
		shown.Payload.Reclaim = document
		b.hears(&shown)
		if r := b.ours(); r.Reclaim != "" || r.State != api.Reserved {
			t.Errorf("it is taken back: %+v", r)
		}
	}
}
