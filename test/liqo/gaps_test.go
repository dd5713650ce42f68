package liqo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// The gaps that Liqo's documentation leaves to "external components"
// (docs/usage/resource-reservation.md, "What Liqo does not"), each with a test of what Bourse does
// about it.

// "Discover what to ask for": one sees what there is before one asks, and what nobody can serve is
// answered at once with the reason, not by pods that stay Pending.
func TestGapDiscoverWhatToAskFor(t *testing.T) {
	w := start(t)
	people := w.rome.People(0)
	eventually(t, "what milan has is seen from rome", func(ctx context.Context) error {
		milan, err := people.Cluster(ctx, "milan")
		if free := milan.Payload.Pools[api.GeneralPool].Available[corev1.ResourceCPU]; err == nil && free.String() != "32" {
			err = fmt.Errorf("it has %s", free.String())
		}
		return err
	})
	e, err := people.Evaluate(t.Context(), api.Request{Resources: amounts("33", "1Gi")})
	if err != nil || e.Decision.Candidates != 0 || e.Decision.NearestMiss == nil ||
		!strings.Contains(e.Decision.NearestMiss.Message, "cpu") {
		t.Errorf("33 CPU are decided as %+v, %v", e.Decision, err)
	}
}

// "Exchange cluster identities and peering credentials": no kubeconfig and no private key of the
// consumer's is at the provider, though nobody had both in one hand.
func TestGapExchangeCredentials(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "credentials", amounts("1", "1Gi"))
	a.becomes(api.Active)
	var key corev1.Secret
	if err := w.rome.Objects.Get(t.Context(), kube.ObjectKey{Namespace: "liqo", Name: "authentication-keys"},
		&key); err != nil {
		t.Fatal(err)
	}
	private := strings.TrimSpace(string(key.Data["privateKey"]))
	if private == "" {
		t.Fatal("Liqo has no key")
	}
	var theirs corev1.SecretList
	if err := w.milan.Objects.List(t.Context(), &theirs); err != nil {
		t.Fatal(err)
	}
	for _, s := range theirs.Items {
		for field, value := range s.Data {
			if strings.Contains(string(value), private) {
				t.Errorf("milan holds the private key of rome in %s/%s %s", s.Namespace, s.Name, field)
			}
			if strings.Contains(string(value), w.rome.Cluster.Config().Host) {
				t.Errorf("milan holds a kubeconfig of rome in %s/%s %s", s.Namespace, s.Name, field)
			}
		}
	}

	// Nor do the Secrets of an offloaded namespace go to the provider, but those that say so.
	a.run(1, "100m", "64Mi")
	a.running(w.milan, 1)
	for name, annotations := range map[string]map[string]string{"mine": nil,
		"ours": {"liqo.io/allow-reflection": "true"}} {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "credentials", Name: name, Annotations: annotations}}
		if err := w.rome.Objects.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "Secret ours is at milan", func(ctx context.Context) error {
		return w.milan.Objects.Get(ctx, kube.ObjectKey{Namespace: "credentials-rome", Name: "ours"}, &corev1.Secret{})
	})
	if err := w.milan.Objects.Get(t.Context(), kube.ObjectKey{Namespace: "credentials-rome", Name: "mine"},
		&corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("Secret mine is at milan: %v", err)
	}
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// "Ensure offloaded pods comply with enforcement": a pod that no provider takes is named, instead
// of staying Pending.
func TestGapEnsurePodsComply(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "comply", amounts("1", "1Gi"))
	a.becomes(api.Active)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "comply", Name: "greedy"}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"liqo.io/type": "virtual-node"}, Containers: []corev1.Container{{Name: "c",
			Image: "localhost/c"}},
	}}
	if err := w.rome.Objects.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	says := func(status metav1.ConditionStatus, why string) {
		t.Helper()
		eventually(t, "the reservation says of its pods "+why, func(ctx context.Context) error {
			var i api.ReservationInstruction
			if err := w.rome.Objects.Get(ctx, kube.ObjectKey{Namespace: "comply", Name: a.request.Status.Reservation},
				&i); err != nil {
				return err
			}
			if c := meta.FindStatusCondition(i.Status.Conditions, api.ConditionPodsComply); c == nil ||
				c.Status != status || !strings.Contains(c.Message, why) {
				return fmt.Errorf("it says %+v", c)
			}
			return nil
		})
	}
	says(metav1.ConditionFalse, "pod comply/greedy has a container c that requests no cpu and no memory")
	if err := w.rome.Objects.Delete(t.Context(), pod, kube.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// "Authorize the peering relationship": whom the provider's policy does not allow gets neither a
// reservation nor a peering.
func TestGapAuthorizeThePeering(t *testing.T) {
	w := start(t)
	set := func(allow string) {
		t.Helper()
		var p api.SharingPolicy
		if err := w.paris.Objects.Get(context.Background(), kube.ObjectKey{Name: "default"}, &p); err != nil {
			t.Fatal(err)
		}
		before := p.DeepCopy()
		p.Spec.Allow = allow
		// The agent writes the policy's status meanwhile: an update would conflict.
		if err := w.paris.Objects.Patch(context.Background(), &p, kube.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	decided := func(want string) {
		t.Helper()
		eventually(t, fmt.Sprintf("a request of rome to paris is decided as %q", want), func(ctx context.Context) error {
			e, err := w.rome.People(0).Evaluate(ctx, api.Request{Resources: amounts("1", "1Gi"), Target: "paris"})
			if err != nil {
				return err
			}
			i := slices.IndexFunc(e.Clusters, func(v api.Verdict) bool { return v.Cluster == "paris" })
			if i < 0 || e.Clusters[i].Reason != want {
				return fmt.Errorf("the clusters are %+v", e.Clusters)
			}
			return nil
		})
	}
	set(`consumer.cluster == "milan"`)
	t.Cleanup(func() { set(""); decided("") })
	decided("NotAllowed")
	a := w.ask(t, w.rome, w.paris, "unauthorized", amounts("1", "1Gi"))
	a.becomes(api.Rejected)
	w.nothingLeft(t, w.rome, w.paris)
	if err := w.rome.Objects.Delete(t.Context(), a.request); err != nil {
		t.Fatal(err)
	}
}

// "Agree on what a resource key means": which GPU it is, a request can ask.
func TestGapAgreeOnWhatAResourceMeans(t *testing.T) {
	w := start(t)
	gpu := amounts("1", "1Gi")
	gpu["nvidia.com/gpu"] = amounts("1", "1Gi")[corev1.ResourceCPU]
	for where, want := range map[string]string{
		`"NVIDIA-A100" in gpus && cluster != "rome"`: "milan",
		`"NVIDIA-H100" in gpus`:                      "",
	} {
		eventually(t, "the GPU of "+where, func(ctx context.Context) error {
			e, err := w.rome.People(0).Evaluate(ctx, api.Request{Resources: gpu, Where: where})
			if err == nil && e.Decision.Chosen != want {
				err = fmt.Errorf("chosen is %q", e.Decision.Chosen)
			}
			return err
		})
	}
}
