package lending

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
)

// provider is the cluster milan, with the admission policies. lyon has peered with it by hand, and its slice
// "rented" is in the SharingPolicy.
type provider struct {
	client.Client
	t       *testing.T
	clock   *clocktesting.FakePassiveClock
	sharing *api.Sharing
	market  *exchange.Exchange
	tenant  *corev1.Namespace
	// deny: the policies deny what the agent proves. onList runs once, before the policies know a consumer.
	deny   bool
	onList func()
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{t: t, clock: clocktesting.NewFakePassiveClock(time.Now()), tenant: liqo.NewTenantNamespace("lyon"),
		market: exchangetest.Open(t, nil, exchange.Options{Self: "milan"}),
		sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool, PlainConsumers: []api.PlainConsumer{
			{Cluster: "lyon", Slice: "rented", Max: api.Resources{"cpu": resource.MustParse("4")}}}}}}}
	known := scheme.New()
	list := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "bourse-consumers"}}
	p.Client = fake.NewClientBuilder().WithScheme(known).WithObjects(p.tenant, list).Build()
	manifest, err := os.ReadFile("../../../../config/liqo/policies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(known).UniversalDeserializer()
	for _, text := range bytes.Split(manifest, []byte("\n---\n")) {
		o, _, err := decoder.Decode(text, nil, nil)
		if err == nil {
			err = p.Client.Create(t.Context(), o.(client.Object))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// Create answers the agent's proofs as the policies do.
func (p *provider) Create(ctx context.Context, o client.Object, how ...client.CreateOption) error {
	if !slices.Contains(how, client.CreateOption(client.DryRunAll)) {
		return p.Client.Create(ctx, o, how...)
	}
	if !p.deny {
		return nil
	}
	err := apierrors.NewInvalid(schema.GroupKind{Kind: "ResourceSlice"}, o.GetName(), nil)
	err.ErrStatus.Message = "of class bourse; may not write finalizers; " + strings.TrimSuffix(o.GetName(), ".proof") + ": in force"
	return err
}

func (p *provider) Patch(ctx context.Context, o client.Object, patch client.Patch, how ...client.PatchOption) error {
	if _, ok := o.(*corev1.ConfigMap); ok && p.onList != nil {
		p.onList()
		p.onList = nil
	}
	return p.Client.Patch(ctx, o, patch, how...)
}

// policies are what the policies know.
func (p *provider) policies() *posture.Policies {
	return &posture.Policies{Known: p, Reader: p, Writer: p, Namespace: "bourse", Cluster: "milan"}
}

// agent returns the lending of an agent that starts.
func (p *provider) agent() *Lending {
	sharing := func() *api.Sharing { return p.sharing }
	return New(Options{Client: p, Reader: p, Cluster: "milan", Market: p.market, Policies: p.policies(), Sharing: sharing,
		Usage: NewUsage(UsageOptions{Market: p.market, Sharing: sharing}), Clock: p.clock})
}

// looks lets an agent look at the plain consumers, and checks whether it must look again, and whether the
// policies know lyon then.
func (p *provider) looks(l *Lending, when string, again, listed bool) {
	p.t.Helper()
	got, err := l.guardAllPlain(p.t.Context(), ctrl.Request{})
	if err != nil || (got.RequeueAfter > 0) != again {
		p.t.Errorf("%s: it looks again in %s, %v", when, got.RequeueAfter, err)
	}
	all, err := p.policies().Plain(p.t.Context())
	guarded, _ := l.guards("lyon")
	if told := l.options.Usage.IsGuarded("lyon"); told != listed {
		p.t.Errorf("%s: usage knows that it is guarded: %t", when, told)
	}
	if err != nil || all["lyon"] != listed || guarded != listed {
		p.t.Errorf("%s: the policies know %v, it is guarded: %t, %v", when, all, guarded, err)
	}
}

// owes checks the grant of the slice "rented", and whether it may grow.
func (p *provider) owes(l *Lending, when, cpu string, guarded bool) {
	p.t.Helper()
	got, known, err := l.owed(p.t.Context(), "lyon", "rented")
	if err != nil || known != (cpu != "0") || got.Unguarded == guarded || got.Resources.Cpu().String() != cpu {
		p.t.Errorf("%s: it is owed %+v (%t), %v", when, got, known, err)
	}
}

func (p *provider) has(o client.Object, name string) client.Object {
	p.t.Helper()
	o.SetNamespace(p.tenant.Name)
	o.SetName(name)
	o.SetLabels(map[string]string{"liqo.io/replicated": "true"})
	if err := p.Create(p.t.Context(), o); err != nil {
		p.t.Fatal(err)
	}
	return o
}

func (p *provider) loses(all ...client.Object) {
	p.t.Helper()
	for _, o := range all {
		if err := p.Delete(p.t.Context(), o); err != nil {
			p.t.Fatal(err)
		}
	}
}

func slice(class authv1beta1.ResourceSliceClass) *authv1beta1.ResourceSlice {
	return &authv1beta1.ResourceSlice{Spec: authv1beta1.ResourceSliceSpec{Class: class}}
}

// A plain consumer is granted nothing before the policies know it and deny. They know it as long as it is
// peered, also if the SharingPolicy no longer names it.
func TestPlainConsumer(t *testing.T) {
	p := newProvider(t)
	l := p.agent()
	p.has(slice(liqo.Class), "rented")
	p.looks(l, "the policies do not deny", true, false)
	p.owes(l, "the policies do not deny", "4", false)
	p.deny = true
	p.owes(l, "before it looks again", "4", false)
	p.looks(l, "they deny", false, true)
	p.owes(l, "they deny", "4", true)
	if all, err := l.granted(t.Context(), "lyon"); err != nil || all.Cpu().String() != "4" || all.Pods().String() != "110" {
		t.Errorf("granted are %v, %v", all, err)
	}

	p.deny = false
	p.owes(l, "within a minute", "4", true)
	p.clock.SetTime(p.clock.Now().Add(2 * time.Minute))
	p.owes(l, "they deny no longer", "4", false)
	next := p.agent()
	p.owes(next, "at a start", "4", false)
	p.looks(next, "at a start", false, true)
	p.owes(next, "they do not deny at a start", "4", false)
	p.deny = true
	p.owes(next, "they deny again", "4", true)

	p.sharing = &api.Sharing{}
	p.looks(next, "no longer named", false, true)
	p.owes(next, "no longer named", "0", true)
	last := p.agent()
	p.looks(last, "at a start, no longer named", false, true)
	tenant := p.has(&authv1beta1.Tenant{Spec: authv1beta1.TenantSpec{ClusterID: "lyon"}}, "lyon")
	if done, err := last.Close(t.Context(), "lyon", false); err != nil || !done {
		t.Errorf("closed: %t, %v", done, err)
	}
	p.looks(last, "it has no reservation", false, true)
	p.loses(tenant, p.tenant)
	p.looks(last, "without a peering", false, false)
}

// A plain consumer that left and comes back is proven again: what the policies denied in its former stay, also if
// that was seconds ago, proves nothing of the new one.
func TestPlainConsumerThatComesBack(t *testing.T) {
	p := newProvider(t)
	p.deny = true
	l, named, tenant := p.agent(), p.sharing, p.tenant.DeepCopy()
	p.looks(l, "they deny", false, true)
	p.owes(l, "they deny", "4", true)
	p.sharing = &api.Sharing{}
	p.loses(p.tenant)
	p.looks(l, "it has left", false, false)
	l.plain.Range(func(consumer, _ any) bool {
		t.Errorf("a proof of %v is kept", consumer)
		return true
	})

	p.deny, p.sharing = false, named
	tenant.ResourceVersion = ""
	if err := p.Create(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	p.looks(l, "it is back, and they do not deny", true, false)
	p.owes(l, "it is back, and they do not deny", "4", false)
	p.deny = true
	p.looks(l, "they deny again", false, true)
	p.owes(l, "they deny again", "4", true)
}

// While the policies would refuse what a plain consumer has, they do not know it, and the doctor names that.
func TestPlainConsumerThatHasMore(t *testing.T) {
	p := newProvider(t)
	p.deny = true
	l := p.agent()
	other := p.has(slice("default"), "other")
	mapping := p.has(&offv1beta1.NamespaceMap{Spec: offv1beta1.NamespaceMapSpec{
		DesiredMapping: map[string]string{"a": "a-lyon", "b": "b", "c": "kube-c-lyon"}}}, "milan")
	second := p.has(&offv1beta1.NamespaceMap{}, "second")
	p.looks(l, "it has more", true, false)
	p.owes(l, "it has more", "4", false)
	refused, err := l.refused(t.Context(), "lyon")
	want := []string{"NamespaceMap second", "ResourceSlice other of class default", "namespace b", "namespace kube-c-lyon"}
	if err != nil || !slices.Equal(refused, want) {
		t.Errorf("refused: %q, %v", refused, err)
	}
	if found, err := l.Refused(t.Context()); err != nil || len(found) != 1 || found[0].Subject != "cluster lyon" || found[0].Remedy == "" {
		t.Errorf("the doctor finds %+v, %v", found, err)
	}
	p.loses(other, mapping, second)

	p.onList = func() { other = p.has(slice("default"), "late") }
	p.looks(l, "it makes more meanwhile", true, false)
	p.owes(l, "it makes more meanwhile", "4", false)
	p.loses(other)
	p.looks(l, "it has no more", false, true)
	if found, err := l.Refused(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("the doctor finds %+v, %v", found, err)
	}
}

// A cluster that is a plain consumer and has reservations stays under the policies until both are over.
func TestPlainConsumerThatReserves(t *testing.T) {
	p := newProvider(t)
	p.deny = true
	l := p.agent()
	p.looks(l, "at first", false, true)
	if err := errors.Join(l.list(t.Context(), &state{}, "lyon"), p.policies().Unlist(t.Context(), "lyon")); err != nil {
		t.Fatal(err)
	}
	p.looks(l, "its reservation ended", false, true)
	p.sharing = &api.Sharing{}
	if err := l.list(t.Context(), &state{}, "lyon"); err != nil { // it has another one
		t.Fatal(err)
	}
	p.loses(p.tenant)
	p.looks(l, "it reserves", false, false) // and is brokered
	var known corev1.ConfigMap
	if err := p.Get(t.Context(), client.ObjectKey{Namespace: "bourse", Name: "bourse-consumers"}, &known); err != nil ||
		known.Data["lyon"] != "brokered" {
		t.Errorf("the policies know %v, %v", known.Data, err)
	}
}
