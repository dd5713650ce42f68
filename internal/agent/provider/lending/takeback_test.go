package lending

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubernetes "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// The quota of each namespace admits what is reserved for all of them together. The newest pod that
// exceeds it is deleted soon after it comes, without a grace. The pods that fit stay.
func TestOveruseIsTakenBackAtOnce(t *testing.T) {
	ledger, record := lends(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	cluster := kubernetes.NewClientset()
	inv := inventory.New(cluster,
		inventory.Options{Owner: func(m *metav1.ObjectMeta) string { return m.Labels[consts.CreatorLabelKey] }})
	go func() { ended <- inv.Run(ctx) }()
	<-inv.Synced()
	var lists atomic.Int32
	peering := &api.Peering{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "rome.consumer"}}
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(peering).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, how ...client.ListOption) error {
			lists.Add(1)
			return c.List(ctx, list, how...)
		},
	}).Build()
	recorder := events.NewFakeRecorder(100)
	u := NewUsage(UsageOptions{
		Client: c, Reader: c, Namespace: "bourse", Market: ledger, Inventory: inv, Graces: grant.Graces{Shrink: time.Hour,
			Excess: time.Hour},
		Events: recorder, Log: slog.New(slog.DiscardHandler),
	})
	u.began = time.Time{}
	counted := testutil.ToFloat64(TakenBack.WithLabelValues("overuse"))
	go func() { ended <- u.Run(ctx) }()
	stop := sync.OnceFunc(func() { cancel(); <-ended; <-ended })
	t.Cleanup(stop)

	begun := time.Now().Add(-time.Hour)
	runs := func(namespace, cpu string, age time.Duration) *offv1beta1.ShadowPod {
		t.Helper()
		meta := metav1.ObjectMeta{Namespace: namespace, Name: "p",
			UID: "u", CreationTimestamp: metav1.NewTime(begun.Add(age)),
			Labels: map[string]string{consts.CreatorLabelKey: grant.User(record.Slice(), "rome"),
				consts.ManagedByLabelKey: consts.ManagedByShadowPodValue}}
		spec := corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}}}
		shadow, pod := &offv1beta1.ShadowPod{ObjectMeta: meta,
			Spec: offv1beta1.ShadowPodSpec{Pod: spec}}, &corev1.Pod{ObjectMeta: meta, Spec: spec}
		for _, o := range []client.Object{shadow, pod.DeepCopy()} {
			if err := c.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := cluster.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return shadow
	}
	gone := func(s *offv1beta1.ShadowPod) bool {
		return apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(s), s))
	}
	first := runs("one", "700m", 0)
	second := runs("two", "300m", time.Minute)
	third := runs("three", "200m", 2*time.Minute)
	for patience := time.Now().Add(time.Minute); !gone(third); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(patience) {
			t.Fatal("the newest pod is not deleted")
		}
	}
	if gone(first) || gone(second) {
		t.Error("a pod that fits is deleted")
	}
	if event := <-recorder.Events; !strings.HasPrefix(event, "Warning PodsTakenBack pods of rome") {
		t.Errorf("the Event is %q", event)
	}
	if now := testutil.ToFloat64(TakenBack.WithLabelValues("overuse")); now <= counted {
		t.Errorf("the metric is %g, was %g", now, counted)
	}

	// Where all was killed that is too much, and is still there, pods are not listed at each look.
	stop()
	for range 3 { // the pod may still have to be killed
		if _, err := u.takeBackAll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	before := lists.Load()
	if taken, err := u.takeBackAll(t.Context()); taken || err != nil || lists.Load() != before {
		t.Errorf("taken %v, %v, with %d lists more", taken, err, lists.Load()-before)
	}

	// An agent that has just begun takes nothing back: what seems too much may be of a reservation
	// that its Ledger lost.
	runs("four", "200m", 3*time.Minute)
	clear(u.stuck)
	u.began = ledger.Now().Go()
	if taken, err := u.takeBackAll(t.Context()); taken || err != nil || lists.Load() != before {
		t.Errorf("at the start: taken %v, %v, with %d lists more", taken, err, lists.Load()-before)
	}
	u.began = time.Time{}
	if taken, err := u.takeBackAll(t.Context()); !taken || err != nil {
		t.Errorf("after the graces: taken %v, %v", taken, err)
	}
}

// A reservation that names a number of pods ends. The pods of another one of the account, which
// names none, are within the grant: they stay, and do not keep the first reservation from ending.
func TestPodsOfAnotherReservationStay(t *testing.T) {
	ledger, stays := lends(t)
	ends := *stays
	ends.ID, ends.State, ends.Size = "r-2", api.Releasing, amounts.List{{Resource: "cpu", Value: 1000},
		{Resource: "pods", Value: 2}}
	user := grant.User(stays.Slice(), "rome")
	meta := metav1.ObjectMeta{Namespace: "one", Labels: map[string]string{consts.CreatorLabelKey: user,
		consts.ManagedByLabelKey: consts.ManagedByShadowPodValue}}
	spec := corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}}}}}
	cluster, c := kubernetes.NewClientset(), fake.NewClientBuilder().WithScheme(scheme.New()).Build()
	for _, name := range []string{"a", "b", "c"} {
		meta.Name = name
		pod := &corev1.Pod{ObjectMeta: meta, Spec: spec}
		if _, err := cluster.CoreV1().Pods("one").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, o := range []client.Object{&offv1beta1.ShadowPod{ObjectMeta: meta, Spec: offv1beta1.ShadowPodSpec{Pod: spec}},
			pod.DeepCopy()} {
			if err := c.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	inv := inventory.New(cluster,
		inventory.Options{Owner: func(m *metav1.ObjectMeta) string { return m.Labels[consts.CreatorLabelKey] }})
	go func() { ended <- inv.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	<-inv.Synced()
	u := NewUsage(UsageOptions{
		Client: c, Reader: c, Namespace: "bourse", Market: ledger, Inventory: inv, Graces: grant.Graces{Shrink: time.Minute,
			Excess: time.Minute},
		Events: events.NewFakeRecorder(100), Log: slog.New(slog.DiscardHandler),
	})
	now := ledger.Now()
	ends.Changed = now
	if n, err := u.fit(t.Context(), user, Account{Bound: []*market.Reservation{stays}, reserved: stays.Size,
		Ending: []*market.Reservation{&ends}}); n != 0 || err != nil {
		t.Errorf("within the graces: %d pods are deleted, %v", n, err)
	}
	ends.Changed = market.At(now.Go().Add(-time.Hour))
	if freed, err := u.Freed(t.Context(), &ends); !freed || err != nil {
		t.Errorf("after the graces it is freed: %v, %v", freed, err)
	}
	var left offv1beta1.ShadowPodList
	if err := c.List(t.Context(), &left); err != nil || len(left.Items) != 3 {
		t.Errorf("%d of 3 pods are left, %v", len(left.Items), err)
	}
}

// lends returns the Ledger of milan, which has reserved 1 CPU for rome.
func lends(t *testing.T) (*exchange.Exchange, *market.Reservation) {
	t.Helper()
	ledger := exchangetest.Open(t, nil, exchange.Options{Self: "milan"})
	size, err := amounts.ParseRequest("", transporttest.CPU("1"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := ledger.Do(t.Context(), market.Admit{
		Adopt: true, Document: "assignment", Acceptance: "acceptance", Size: size, BindsUntil: market.At(ledger.Now().Go().Add(time.Minute)),
		Assignment: api.Assignment{
			Reservation: "r-1", Consumer: "rome", Provider: "milan", Pool: api.GeneralPool, Generation: 1,
			Until: transporttest.Seconds(ledger.Now().Go().Add(time.Hour)),
		},
	})
	if err != nil || !out.Reservation.Bound() {
		t.Fatalf("%+v, %v", out.Reservation, err)
	}
	return ledger, out.Reservation
}
