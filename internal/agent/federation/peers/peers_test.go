package peers

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A cluster whose card was met gets a Peer. The Peer shows its key, what the broker says of it and
// whether the admin has suspended it, each with one Event.
func TestReconcile(t *testing.T) {
	k := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{{GroupVersion: api.GroupVersion,
		Kind: "Peer", Resource: "peers", Namespaced: true, Status: true}}})
	c, err := client.New(k.Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, ledger, recorder := t.Context(), exchangetest.Open(t, nil,
		exchange.Options{Self: "rome"}), events.NewFakeRecorder(100)
	p := New(Options{
		Client: c, Namespace: "default", Market: ledger, Events: recorder, Sharing: func() *api.Sharing { return nil },
		Trigger: &kubeobject.Trigger{}, StateChanged: func(string, api.PeeringRole) {},
	})
	var object api.Peer
	reads := func(want string, conditions ...string) {
		t.Helper()
		for range 2 { // the second time there is nothing new
			if err := p.ReadAll(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "milan"},
			&object); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		var got []string
		for _, kind := range []string{api.ConditionTrusted, api.ConditionMember, api.ConditionSuspended} {
			if c := meta.FindStatusCondition(object.Status.Conditions, kind); c != nil {
				got = append(got, c.Reason)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(conditions) {
			t.Errorf("the conditions are %q, want %q", got, conditions)
		}
		event := ""
		select {
		case event = <-recorder.Events:
		default:
		}
		if !strings.HasPrefix(event, want) || want == "" && event != "" || len(recorder.Events) > 0 {
			t.Errorf("the Event is %q (and %d more), want %q", event, len(recorder.Events), want)
		}
	}
	reads("")
	milan := transporttest.NewParty(t, "milan")
	if _, _, err := p.Demand().Meet(ctx, ledger, milan.Card(api.Properties{}), "milan"); err != nil {
		t.Fatal(err)
	}
	reads("", "FirstUse")
	if want := milan.Key.Public().Fingerprint().String(); object.Status.Fingerprint != want {
		t.Errorf("the fingerprint is %q, want %q", object.Status.Fingerprint, want)
	}
	p.RecordState(api.Membership{Cluster: "milan", State: api.MemberRevoked})
	reads("Warning MemberRevoked", "FirstUse", "Revoked")
	object.Spec.Suspend, object.Spec.SuspendReason, object.Spec.Fingerprint = true, "the bill of May is open", object.Status.Fingerprint
	if err := c.Update(ctx, &object); err != nil {
		t.Fatal(err)
	}
	reads("Warning Suspended", "Confirmed", "Revoked", "Suspended")
	if s, err := p.Suspension(ctx, "milan"); err != nil || s.Status != metav1.ConditionTrue ||
		!strings.Contains(s.Message, "the bill of May is open") {
		t.Errorf("the suspension is %+v, %v", s, err)
	}
	object.Spec.Suspend = false
	if err := c.Update(ctx, &object); err != nil {
		t.Fatal(err)
	}
	reads("Normal Resumed", "Confirmed", "Revoked")
}

// What a broker says of clusters that nobody knows takes a bounded amount of memory.
func TestStatesAreBounded(t *testing.T) {
	p := New(Options{Trigger: &kubeobject.Trigger{}, StateChanged: func(string, api.PeeringRole) {}})
	for i := range 3 * maxClusters {
		p.RecordState(api.Membership{Cluster: fmt.Sprintf("c-%d", i), State: api.MemberActive})
	}
	if n := len(p.states); n > maxClusters {
		t.Errorf("%d clusters are remembered", n)
	}
}
