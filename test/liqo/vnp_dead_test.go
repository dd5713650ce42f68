package liqo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// deathTakes bounds how long a provider that is gone may take until its pods run elsewhere. Kubernetes
// waits 50 s until it says that the virtual node is NotReady, and then Bourse waits for --pool-dead-after.
const deathTakes = 8 * time.Minute

// A provider whose API server is gone for good is replaced. Pods of Deployments run elsewhere; that of a
// StatefulSet waits for a person. Once the person deletes it, nothing of the dead provider keeps other
// virtual nodes from being removed.
func TestADeadProviderOfAPool(t *testing.T) {
	w := start(t)
	w.spent = true
	rome := w.agentOf(t, w.rome)
	rome.kill()
	w.rome.AgentFlags = append(w.rome.AgentFlags, "--pool-dead-after", "20s") // 3 minutes teach nothing more
	rome.start()
	a := w.bursts(t, "dead", func(s *api.VirtualNodePoolSpec) { s.Providers.Only = []string{"milan"} })
	work := a.run(2, "500m", "64Mi")
	one := int32(1)
	db := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "dead", Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		Template: *work.Spec.Template.DeepCopy(),
	}}
	db.Spec.Template.Labels = map[string]string{"app": "db"}
	if err := w.rome.Objects.Create(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	a.running(w.milan, 3)
	a.edit(func(s *api.VirtualNodePoolSpec) { s.Providers.Only = []string{"milan", "paris"} })

	w.milan.Agent(0).Kill()
	w.milan.Cluster.Kill(lab.LiqoProxy, lab.LiqoCRDReplicator, lab.LiqoControllerManager, lab.LiqoWebhook, lab.LiqoIPAM,
		lab.Kwok, lab.Scheduler, lab.ControllerManager, lab.APIServer)
	began := time.Now()
	a.runsAtParis(deathTakes, "work-", 2)
	t.Logf("the Deployment runs elsewhere %s after the provider died", time.Since(began).Round(time.Second))
	at := market.SliceName("rome", "milan", api.GeneralPool)
	waits := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "dead", Name: "db-0"}}
	eventually(t, "the StatefulSet's pod waits for a person", func(ctx context.Context) error {
		s := a.status(ctx)
		err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(waits), waits)
		if err == nil && (waits.Spec.NodeName != at || !strings.Contains(s.Why, "dead/db-0")) {
			err = fmt.Errorf("it is at %s: %s", waits.Spec.NodeName, s.Why)
		}
		return err
	})
	if err := w.rome.Objects.Delete(t.Context(), waits, kube.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	a.runsAtParis(patience, "", 3)
	eventually(t, "milan serves the pool no more", func(ctx context.Context) error {
		for _, r := range a.requests(ctx) {
			if r.Spec.Target == "milan" {
				return fmt.Errorf("it does: %+v", r.Status)
			}
		}
		return nil
	})
	for _, o := range []kube.Object{work, db} {
		if err := w.rome.Objects.Delete(t.Context(), o,
			kube.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Fatal(err)
		}
	}
	for _, provider := range []string{"paris", "milan"} {
		eventually(t, "the virtual node of "+provider+" is removed", func(ctx context.Context) error {
			name := market.SliceName("rome", provider, api.GeneralPool)
			err := w.rome.Objects.Get(ctx, kube.ObjectKey{Namespace: "liqo-tenant-" + provider, Name: name},
				&offv1beta1.VirtualNode{})
			if err == nil {
				return errors.New("it is there")
			}
			return kube.IgnoreNotFound(err)
		})
	}
}

// runsAtParis waits until so many pods whose names begin so run at paris, and in rome.
func (a *burst) runsAtParis(within time.Duration, prefix string, pods int) {
	a.t.Helper()
	node := market.SliceName("rome", "paris", api.GeneralPool)
	what := fmt.Sprintf("%d pods %s run at paris", pods, prefix)
	federation.Eventually(a.t, within, what, func(ctx context.Context) error {
		there, err := countRunning(ctx, a.paris, a.pool.Name+"-rome", func(p *corev1.Pod) bool {
			return strings.HasPrefix(p.Name, prefix)
		})
		if err != nil {
			return err
		}
		here, err := countRunning(ctx, a.rome, a.pool.Name, func(p *corev1.Pod) bool {
			return strings.HasPrefix(p.Name, prefix) && p.Spec.NodeName == node
		})
		if err == nil && (here != pods || there != pods) {
			err = fmt.Errorf("%d run at paris, %d in rome; %s", there, here, a.status(ctx).Why)
		}
		return err
	})
}
