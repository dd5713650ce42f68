package liqo

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// A provider whose own Deployment wants all it can get keeps room for what is reserved: the consumer's pods come and run, the
// provider's do not stop, and what is no longer used is held again.
func TestPlaceholdersKeepWhatIsReserved(t *testing.T) {
	w := start(t)
	on := func(s *api.Sharing) { s.Pools[0].Placeholders = &api.Placeholders{} }
	w.withPolicy(t, w.milan, on)
	first := w.ask(t, w.rome, w.milan, "held", amounts("8", "8Gi"))
	first.becomes(api.Active)
	w.finds(t, w.milan, health.PlaceholdersMissing, "pool general")
	if err := w.milan.Cluster.ApplyFS(t.Context(), os.DirFS(w.Path("config/placeholders"))); err != nil {
		t.Fatal(err)
	}
	w.holds(t, "8", "8Gi")
	own := w.hungry(t, w.milan, 64, "500m", "256Mi")
	w.ownRuns(t, own, 48) // 32 cores, of which 8 are reserved

	work := first.run(6, "1200m", "512Mi")
	first.running(w.milan, 6)
	w.holds(t, "800m", "5Gi")
	w.ownRuns(t, own, 48)
	w.confinedToPlaceholders(t)
	w.shrinkOwn(t, own, 16)

	none := int32(0)
	before := work.DeepCopy()
	work.Spec.Replicas = &none
	if err := w.rome.Objects.Patch(t.Context(), work, kube.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	first.running(w.milan, 0)
	w.holds(t, "8", "8Gi")

	first.release()
	w.holds(t, "0", "0")
	w.nothingLeft(t, w.rome, w.milan)
}

// Switched off, they go; what is reserved stays so. Another PriorityClass than there is, is told.
func TestPlaceholdersAreAnOption(t *testing.T) {
	w := start(t)
	if err := w.milan.Cluster.ApplyFS(t.Context(), os.DirFS(w.Path("config/placeholders"))); err != nil {
		t.Fatal(err)
	}
	a := w.ask(t, w.rome, w.milan, "optional", amounts("2", "2Gi"))
	a.becomes(api.Active)
	w.holds(t, "0", "0")
	t.Run("on", func(t *testing.T) {
		w.withPolicy(t, w.milan, func(s *api.Sharing) { s.Pools[0].Placeholders = &api.Placeholders{} })
		w.holds(t, "2", "2Gi")
		e, err := w.rome.People(0).Cluster(t.Context(), "milan")
		if err != nil {
			t.Fatal(err)
		}
		if cpu := e.Payload.Pools[api.GeneralPool].Allocated[corev1.ResourceCPU]; cpu.Sign() != 0 {
			t.Errorf("%s are allocated: placeholders count", cpu.String())
		}
	})
	w.holds(t, "0", "0")
	t.Run("wrong", func(t *testing.T) {
		w.withPolicy(t, w.milan, func(s *api.Sharing) { s.Pools[0].Placeholders = &api.Placeholders{PriorityClass: "nobody-made"} })
		w.finds(t, w.milan, health.PlaceholdersMissing, "pool general")
	})
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// Without placeholders a provider's own pods may take what is reserved: its doctor tells, until they are moved.
func TestReservedIsNotCovered(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "uncovered", amounts("8", "8Gi"))
	a.becomes(api.Active)
	own := w.hungry(t, w.milan, 64, "500m", "256Mi")
	w.ownRuns(t, own, 64) // all of 32 cores
	w.finds(t, w.milan, health.NotCovered, "pool general")
	w.shrinkOwn(t, own, 16)
	eventually(t, "it is covered again", func(ctx context.Context) error {
		d, err := w.milan.People(0).Diagnose(ctx)
		if err == nil && slices.ContainsFunc(d.Problems, is(health.NotCovered, "pool general")) {
			err = fmt.Errorf("it finds %+v", d.Problems)
		}
		return err
	})
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// holds waits until placeholders hold so much in milan, running.
func (w *world) holds(t *testing.T, cpu, memory string) {
	t.Helper()
	eventually(t, "placeholders hold "+cpu+" CPU", func(ctx context.Context) error {
		var list corev1.PodList
		if err := w.milan.Objects.List(ctx, &list, kube.InNamespace("bourse-placeholders")); err != nil {
			return err
		}
		sum := amounts("0", "0")
		for _, p := range list.Items {
			if p.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("%s is %s: %+v", p.Name, p.Status.Phase, p.Status.Conditions)
			}
			for name, have := range sum {
				have.Add(p.Spec.Containers[0].Resources.Requests[name])
				sum[name] = have
			}
		}
		for name, want := range amounts(cpu, memory) {
			if have := sum[name]; have.Cmp(want) != 0 {
				return fmt.Errorf("%d pods hold %s %s, want %s", len(list.Items), have.String(), name, want.String())
			}
		}
		return nil
	})
}

// hungry is a Deployment of the cluster's own that wants more than there is.
func (w *world) hungry(t *testing.T, at *federation.Member, replicas int32, cpu, memory string) *appsv1.Deployment {
	t.Helper()
	labels, grace := map[string]string{"app": "hungry"}, int64(0)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hungry"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{
				Name: "own", Image: "localhost/own", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList(amounts(cpu, memory))},
			}}},
		}},
	}
	if err := at.Objects.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = at.Objects.Delete(context.Background(), d, kube.PropagationPolicy(metav1.DeletePropagationForeground))
		eventually(t, "the hungry are gone", func(ctx context.Context) error {
			var list corev1.PodList
			err := at.Objects.List(ctx, &list, kube.InNamespace("default"), kube.MatchingLabels(labels))
			if err == nil && len(list.Items) > 0 {
				err = fmt.Errorf("%d are there", len(list.Items))
			}
			return err
		})
	})
	return d
}

// shrinkOwn leaves so many pods of the Deployment.
func (w *world) shrinkOwn(t *testing.T, d *appsv1.Deployment, replicas int32) {
	t.Helper()
	before := d.DeepCopy()
	d.Spec.Replicas = &replicas
	if err := w.milan.Objects.Patch(t.Context(), d, kube.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	w.ownRuns(t, d, int(replicas))
}

// ownRuns waits until so many pods of the Deployment run, and all others wait for room.
func (w *world) ownRuns(t *testing.T, d *appsv1.Deployment, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d of the provider's own pods run", want), func(ctx context.Context) error {
		var list corev1.PodList
		if err := w.milan.Objects.List(ctx, &list, kube.InNamespace(d.Namespace), kube.MatchingLabels(d.Spec.Selector.MatchLabels)); err != nil {
			return err
		}
		run, tried := 0, 0
		for _, p := range list.Items {
			if p.Status.Phase == corev1.PodRunning {
				run++
			}
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
					tried++
				}
			}
		}
		if run != want || run+tried != int(*d.Spec.Replicas) {
			return fmt.Errorf("%d run, %d found no room", run, tried)
		}
		return nil
	})
}

// confinedToPlaceholders tries, as milan's agent, what its rights for placeholders would allow besides.
func (w *world) confinedToPlaceholders(t *testing.T) {
	t.Helper()
	config, err := w.milan.Cluster.ServiceAccount(t.Context(), api.Namespace, "bourse-agent")
	if err != nil {
		t.Fatal(err)
	}
	agent, err := kube.New(config, kube.Options{Scheme: w.milan.Objects.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	var own corev1.PodList
	if err := w.milan.Objects.List(t.Context(), &own, kube.InNamespace("default"), kube.MatchingLabels{"app": "hungry"}, kube.Limit(1)); err != nil || len(own.Items) == 0 {
		t.Fatal("there is no pod to try", err)
	}
	other := own.Items[0].DeepCopy()
	other.Status.Message = "it is not so"
	if err := agent.Status().Patch(t.Context(), other, kube.MergeFrom(&own.Items[0]), kube.DryRunAll); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "where its room is") {
		t.Errorf("the agent writes the status of a pod that is nobody's: %v", err)
	}
	pod := func(change func(*corev1.PodSpec)) *corev1.Pod {
		no, yes, user := false, true, int64(65535)
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse-placeholders", Name: "any"}, Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &no,
			SecurityContext:              &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: "c", Image: "localhost/c",
				Resources:       corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		}}
		change(&p.Spec)
		return p
	}
	for name, c := range map[string]struct {
		change func(*corev1.PodSpec)
		says   string
	}{
		"as it should be": {func(*corev1.PodSpec) {}, ""},
		"privileged": {func(s *corev1.PodSpec) {
			yes := true
			s.Containers[0].SecurityContext.Privileged = &yes
			s.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
		}, "PodSecurity"},
		"with a command": {func(s *corev1.PodSpec) { s.Containers[0].Command = []string{"sh"} }, "is told nothing"},
		"with a volume":  {func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{{Name: "v"}} }, "mounts nothing"},
		"with a token":   {func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = nil }, "mounts nothing"},
	} {
		err := agent.Create(t.Context(), pod(c.change), kube.DryRunAll)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("a pod %s: %v, want %q", name, err, c.says)
		}
	}
	elsewhere := pod(func(*corev1.PodSpec) {})
	elsewhere.Namespace = "bourse"
	if err := agent.Create(t.Context(), elsewhere, kube.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("the agent makes a pod in its own namespace: %v", err)
	}
}
