package lending

import (
	"context"
	"log/slog"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubernetes "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// What pods that have ended take of a grant keeps no reservation from being given back, and is not shown as granted.
// A grant that is larger than that does.
func TestAGrantThatCoversWhatEnded(t *testing.T) {
	ledger, stays := lends(t)
	ends := *stays
	ends.ID, ends.State = "r-2", api.Releasing
	jobOf := func(requests string) *offv1beta1.ShadowPod {
		return &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "jobs", Name: "j1",
			Labels: map[string]string{consts.CreatorLabelKey: grant.User(stays.Slice(), "rome")}},
			Spec: offv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{Containers: []corev1.Container{{
				Resources: corev1.ResourceRequirements{Requests: cpu(requests)}}}}},
			Status: offv1beta1.ShadowPodStatus{Phase: corev1.PodSucceeded}}
	}
	for name, c := range map[string]struct {
		asks           corev1.ResourceList
		ended          string
		granted, shown string
		freed          bool
	}{
		"it covers what ended":               {grant.Wish(nil), "400m", "1400m", "1", true},
		"it still has the reservation":       {grant.Wish(nil), "400m", "2400m", "1", false},
		"it has a part of it":                {grant.Wish(nil), "400m", "1401m", "1", false},
		"it covers nothing":                  {grant.Wish(nil), "400m", "1", "1", true},
		"the virtual node has all that":      {nil, "400m", "1400m", "1400m", false},
		"what ended is more than any amount": {grant.Wish(nil), "8E", "8000000000000000001", "1", true},
	} {
		namespace := liqo.NewTenantNamespace("rome")
		slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: stays.Slice()},
			Spec:   authv1beta1.ResourceSliceSpec{Resources: c.asks},
			Status: authv1beta1.ResourceSliceStatus{Resources: cpu(c.granted)}}
		shown := &api.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "r-1"}}
		k, err := client.New(kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
			{GroupVersion: api.GroupVersion, Kind: "ProviderInstruction", Resource: "providerinstructions", Namespaced: true, Status: true},
			{GroupVersion: authv1beta1.GroupVersion, Kind: "ResourceSlice", Resource: "resourceslices", Namespaced: true},
			{GroupVersion: offv1beta1.SchemeGroupVersion, Kind: "ShadowPod", Resource: "shadowpods", Namespaced: true},
		}}).Config(), client.Options{Scheme: scheme.New()})
		for _, o := range []client.Object{namespace, slice, jobOf(c.ended), shown} {
			if err == nil {
				err = k.Create(t.Context(), o)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		u := NewUsage(UsageOptions{Client: k, Reader: k, Namespace: "bourse", Market: ledger,
			Inventory: inventory.New(kubernetes.NewClientset(), inventory.Options{}), Log: slog.New(slog.DiscardHandler)})
		if freed, err := u.Freed(t.Context(), &ends); freed != c.freed || err != nil {
			t.Errorf("%s: it is given back: %v, %v", name, freed, err)
		}
		if err := u.Show(t.Context(), "rome"); err != nil {
			t.Fatal(err)
		}
		if err := k.Get(t.Context(), client.ObjectKeyFromObject(shown), shown); err != nil {
			t.Fatal(err)
		}
		if got := shown.Status.Account; got == nil || got.Granted.Cpu().Cmp(resource.MustParse(c.shown)) != 0 {
			t.Errorf("%s: %+v is shown as granted to the account, want %s", name, got, c.shown)
		}
		if got := shown.Status.Granted.Cpu().String(); got != "1" {
			t.Errorf("%s: %s is shown as granted to the reservation, want all that it reserves", name, got)
		}
	}
}

// A pod that came and went between two looks has the grant of its account looked at, and no other: it is still in
// Liqo's quota.
func TestAPodThatEndsHasItsGrantLookedAt(t *testing.T) {
	ledger, stays := lends(t)
	cluster, ended := kubernetes.NewClientset(), make(chan error, 1)
	inv := inventory.New(cluster,
		inventory.Options{Owner: func(m *metav1.ObjectMeta) string { return m.Labels[consts.CreatorLabelKey] }})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- inv.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	<-inv.Synced()
	namespace := liqo.NewTenantNamespace("rome")
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	u := NewUsage(UsageOptions{Client: fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(namespace).Build(),
		Market: ledger, Inventory: inv})
	if err := u.Grants.Start(ctx, queue); err != nil {
		t.Fatal(err)
	}
	user := grant.User(stays.Slice(), "rome")
	for _, owner := range []string{"nobody", user} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "jobs", Name: owner,
			Labels: map[string]string{consts.CreatorLabelKey: owner}}, Spec: corev1.PodSpec{NodeName: "n",
			Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpu("1")}}}}}
		if _, err := cluster.CoreV1().Pods("jobs").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		<-inv.UseChanged()
		if err := cluster.CoreV1().Pods("jobs").Delete(ctx, owner, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		<-inv.UseChanged()
	}
	if used := inv.Used(user); len(used) > 0 {
		t.Fatalf("it still uses %v", used)
	}
	u.triggerGrants(ctx)
	u.triggerGrants(ctx) // nothing has happened since
	want := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace.Name, Name: stays.Slice()}}
	if got, _ := queue.Get(); got != want || queue.Len() > 0 {
		t.Errorf("it looks at %s and %d others, want %s", got, queue.Len(), want)
	}
}
