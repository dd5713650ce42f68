package peering

import (
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/peers"
	"github.com/bourse-dev/bourse/internal/agent/provider/lending"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// A provider shows on the Peering what the broker and its admin say of a consumer: in conditions,
// and in one Event for each change. It changes the Tenant as the policy says, also after a restart,
// and writes nothing twice.
func TestStandingOfAConsumer(t *testing.T) {
	ctx := t.Context()
	k := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: api.GroupVersion, Kind: "Peer", Resource: "peers", Namespaced: true, Status: true},
		{GroupVersion: api.GroupVersion, Kind: "Peering", Resource: "peerings", Namespaced: true, Status: true},
		{GroupVersion: authv1beta1.GroupVersion, Kind: authv1beta1.TenantKind,
			Resource: "tenants", Namespaced: true, Status: true},
	}})
	c, err := client.New(k.Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	namespace, object := liqo.NewTenantNamespace("rome"), &api.Peering{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "rome.consumer"}, Spec: api.PeeringSpec{Cluster: "rome",
			Role: api.RoleConsumer},
	}
	tenant, admin := peering.NewTenant(namespace.Name,
		"rome"), &api.Peer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "rome"}}
	for _, o := range []client.Object{namespace, tenant, object, admin} {
		if err := c.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	policy, recorder := &api.Sharing{}, events.NewFakeRecorder(100)
	agent := func() (*Peerings, *peers.Peers) { // a new one, which knows only what the objects say
		known := peers.New(peers.Options{Client: c, Namespace: "default",
			Events: recorder, Trigger: &kubeobject.Trigger{}, StateChanged: func(string, api.PeeringRole) {}})
		lends := lending.New(lending.Options{Client: c, Sharing: func() *api.Sharing { return policy },
			Suspension: known.Suspension})
		return New(Options{Client: c, Peers: known, Lending: lends}), known
	}
	p, known := agent()
	look := func(status metav1.ConditionStatus, reason, says string, becomes authv1beta1.TenantCondition, wanted string) {
		t.Helper()
		version := ""
		for range 2 {
			if err := p.options.Lending.Restrict(ctx, "rome", known.State("rome", object.Status.Conditions)); err != nil {
				t.Fatal(err)
			}
			if err := p.show(ctx, object, api.PeeringStatus{State: api.PeeringOpen}, false); err != nil {
				t.Fatal(err)
			}
			for _, o := range []client.Object{object, tenant} {
				if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
					t.Fatal(err)
				}
			}
			now := object.ResourceVersion + " " + tenant.ResourceVersion
			if version != "" && now != version {
				t.Error("it is written again")
			}
			version = now
		}
		if got := meta.FindStatusCondition(object.Status.Conditions, api.ConditionMember); got == nil ||
			got.Status != status || got.Reason != reason || !strings.Contains(got.Message, says) {
			t.Errorf("the condition is %+v, want %s %s", got, status, reason)
		}
		if tenant.Spec.TenantCondition != becomes {
			t.Errorf("the Tenant is %s, want %s", tenant.Spec.TenantCondition, becomes)
		}
		event := ""
		select {
		case event = <-recorder.Events:
		default:
		}
		if !strings.HasPrefix(event, wanted) || wanted == "" && event != "" || len(recorder.Events) > 0 {
			t.Errorf("the Event is %q (and %d more), want %q", event, len(recorder.Events), wanted)
		}
	}
	say := func(state api.MemberState) { known.RecordState(api.Membership{Cluster: "rome", State: state}) }
	const active, cordoned, drained = authv1beta1.TenantConditionActive, authv1beta1.TenantConditionCordoned, authv1beta1.TenantConditionDrained

	say(api.MemberActive)
	look(metav1.ConditionTrue, "Active", "is a member", active, "")
	say(api.MemberSuspended)
	look(metav1.ConditionFalse, "Suspended", "existing reservations stay", active, "Warning MemberSuspended")
	say(api.MemberRevoked)
	look(metav1.ConditionFalse, "Revoked", "existing reservations stay", active, "Warning MemberRevoked")
	policy = &api.Sharing{OnRevoke: api.RevokeDrain}
	look(metav1.ConditionFalse, "Revoked", "drained", drained, "")
	p, known = agent()
	look(metav1.ConditionFalse, "Revoked", "drained", drained, "")
	policy = &api.Sharing{OnRevoke: api.RevokeCordon}
	look(metav1.ConditionFalse, "Revoked", "cordoned", cordoned, "")
	policy = nil // it is not read yet, or not valid: nothing is taken back by that
	look(metav1.ConditionFalse, "Revoked", "left as it is", cordoned, "")
	say(api.MemberActive)
	look(metav1.ConditionTrue, "Active", "is a member", active, "Normal MemberActive")

	suspended := func(reason, says string) {
		t.Helper()
		c := meta.FindStatusCondition(object.Status.Conditions, api.ConditionSuspended)
		if reason == "" && c != nil || reason != "" && (c == nil ||
			c.Reason != reason || !strings.Contains(c.Message, says)) {
			t.Errorf("the condition is %+v, want %s", c, reason)
		}
	}
	suspend := func(is bool, reason string) {
		t.Helper()
		admin.Spec.Suspend, admin.Spec.SuspendReason = is, reason
		if err := c.Update(ctx, admin); err != nil {
			t.Fatal(err)
		}
	}
	suspended("", "")
	suspend(true, "the bill of May is open")
	look(metav1.ConditionTrue, "Active", "is a member", cordoned, "Warning Suspended")
	suspended("Suspended", "the bill of May is open")
	p, known = agent()
	look(metav1.ConditionTrue, "Active", "is a member", cordoned, "")
	suspend(true, "")
	look(metav1.ConditionTrue, "Active", "is a member", cordoned, "Warning Suspended")
	suspended("Suspended", "no reason was given")
	suspend(false, "")
	look(metav1.ConditionTrue, "Active", "is a member", active, "Normal Resumed")
	suspended("", "")
}
