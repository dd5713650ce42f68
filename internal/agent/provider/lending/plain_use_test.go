package lending

import (
	"log/slog"
	"testing"
	"time"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// used is an inventory in which each user requests the same.
type used struct {
	Inventory
	resources api.Resources
}

func (u used) Used(string) api.Resources { return u.resources }

// The pods of a plain consumer beyond its max are deleted, the newest first: once it is guarded, and after the
// graces of a max that was lowered. Nothing is deleted when the SharingPolicy no longer names it.
func TestPlainConsumersUseNoMore(t *testing.T) {
	clock := transporttest.NewClock()
	market := exchangetest.Open(t, nil, exchange.Options{Self: "milan", Clock: clock, TickEvery: time.Millisecond})
	user := grant.User("rented", "lyon")
	c := fake.NewClientBuilder().WithScheme(scheme.New()).Build()
	for i, name := range []string{"a", "b", "c"} {
		pod := &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop-lyon", Name: name,
			CreationTimestamp: metav1.NewTime(clock.Wall().Add(time.Duration(i) * time.Minute)),
			Labels:            map[string]string{consts.CreatorLabelKey: user}}}
		pod.Spec.Pod.Containers = []corev1.Container{{Name: "c",
			Resources: corev1.ResourceRequirements{Requests: cpu("1")}}}
		if err := c.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	sharing := func(most string) *api.Sharing {
		return &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool, PlainConsumers: []api.PlainConsumer{
			{Cluster: "lyon", Slice: "rented", Max: api.Resources(cpu(most))}}}}}
	}
	policy := sharing("2")
	u := NewUsage(UsageOptions{
		Client: c, Reader: c, Namespace: "bourse", Market: market, Inventory: used{resources: api.Resources(cpu("3"))},
		Graces:  grant.Graces{Shrink: 30 * time.Second, Excess: time.Minute},
		Sharing: func() *api.Sharing { return policy },
		Events:  events.NewFakeRecorder(10), Log: slog.New(slog.DiscardHandler),
	})
	left := func(when string, pods int) {
		t.Helper()
		clock.Move(80*time.Second, func() time.Time { return market.Now().Go() })
		_, err := u.takeBackAll(t.Context())
		var list offv1beta1.ShadowPodList
		if err := c.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		if err != nil || len(list.Items) != pods || list.Items[0].Name != "a" {
			t.Errorf("%s: %d pods are left, want %d; %v", when, len(list.Items), pods, err)
		}
	}
	left("at the start", 3)
	left("not guarded", 3)
	left("still not guarded", 3)
	u.SetGuarded(map[string]bool{"lyon": true})
	left("within the graces", 3)
	left("after the graces", 2)
	policy = sharing("1")
	left("the max is lowered", 2)
	policy = nil
	left("no policy is in force", 2)
	policy = sharing("1")
	left("named again", 2)
	left("within the graces again", 2)
	left("after the graces again", 1)
}

func cpu(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}
