package liqo

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// withPolicy changes what a provider's policy says, until the test ends.
func (w *world) withPolicy(t *testing.T, at *federation.Member, change func(*api.Sharing)) {
	t.Helper()
	var was api.Sharing
	set := func(change func(*api.Sharing)) error {
		// The agent writes the policy's status meanwhile.
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			var p api.SharingPolicy
			if err := at.Objects.Get(context.Background(), kube.ObjectKey{Name: "default"}, &p); err != nil {
				return err
			}
			was = *p.Spec.DeepCopy()
			change(&p.Spec)
			return at.Objects.Update(context.Background(), &p)
		})
	}
	if err := set(change); err != nil {
		t.Fatal(err)
	}
	before := was
	t.Cleanup(func() {
		if err := set(func(s *api.Sharing) { *s = before }); err != nil {
			t.Error(err)
		}
	})
}

// guarded demands that a mapped namespace is guarded, and stays so when somebody takes a guard away.
func (w *world) guarded(t *testing.T, at *federation.Member, namespace string) {
	t.Helper()
	name := kube.ObjectKey{Namespace: namespace, Name: "bourse"}
	there := func(what string) {
		t.Helper()
		eventually(t, namespace+" is guarded "+what, func(ctx context.Context) error {
			for _, o := range []kube.Object{&corev1.ResourceQuota{}, &corev1.LimitRange{}, &networkingv1.NetworkPolicy{}} {
				if err := at.Objects.Get(ctx, name, o); err != nil {
					return err
				}
			}
			var ns corev1.Namespace
			if err := at.Objects.Get(ctx, kube.ObjectKey{Name: namespace}, &ns); err != nil {
				return err
			}
			if ns.Labels["pod-security.kubernetes.io/enforce"] != "baseline" || ns.Labels["bourse.dev/guarded"] != "true" {
				return fmt.Errorf("it is labelled %v", ns.Labels)
			}
			return nil
		})
	}
	there("")
	for _, o := range []kube.Object{&corev1.ResourceQuota{}, &networkingv1.NetworkPolicy{}} {
		o.SetNamespace(name.Namespace)
		o.SetName(name.Name)
		if err := at.Objects.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	there("again")
	balancer := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "open"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}},
		}}
	eventually(t, "no load balancer is given", func(ctx context.Context) error {
		err := at.Objects.Create(ctx, balancer.DeepCopy(), kube.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "exceeded quota") {
			return fmt.Errorf("%w", err)
		}
		return nil
	})
}

// confined checks that an attacker with the agent's ServiceAccount gains nothing else.
func (w *world) confined(t *testing.T, at *federation.Member) {
	config, err := at.Cluster.ServiceAccount(t.Context(), api.Namespace, "bourse-agent")
	if err != nil {
		t.Fatal(err)
	}
	c, err := kube.New(config, kube.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	secret := func(namespace, name string, kind corev1.SecretType) func(context.Context) error {
		return func(ctx context.Context) error {
			s := &corev1.Secret{ObjectMeta: named(namespace, name), Type: kind}
			s.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
			return c.Create(ctx, s, kube.DryRunAll)
		}
	}
	label := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			ns := &corev1.Namespace{ObjectMeta: named("", name)}
			return c.Patch(ctx, ns, kube.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`)), kube.DryRunAll)
		}
	}
	own := &corev1.Pod{ObjectMeta: named("default", "own"),
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "localhost/i"}}}}
	if err := at.Objects.Create(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = at.Objects.Delete(context.Background(), own, kube.GracePeriodSeconds(0)) }()
	for what, attempt := range map[string]func(context.Context) error{
		"reads a Secret": func(ctx context.Context) error {
			return c.Get(ctx, kube.ObjectKey{Namespace: "kube-system", Name: "any"}, &corev1.Secret{})
		},
		"lists Secrets":                         func(ctx context.Context) error { return c.List(ctx, &corev1.SecretList{}) },
		"has a token of another account made":   secret("kube-system", "liqo-nonce", corev1.SecretTypeServiceAccountToken),
		"makes a Secret that is read by others": secret("default", "registry", corev1.SecretTypeOpaque),
		"has Liqo act by a kubeconfig": func(ctx context.Context) error {
			s := &corev1.Secret{ObjectMeta: named("default", "liqo-nonce"), Data: map[string][]byte{"kubeconfig": []byte("{}")}}
			s.Labels = map[string]string{"liqo.io/remote-cluster-id": "oslo", "liqo.io/identity-type": "ControlPlane"}
			return c.Create(ctx, s, kube.DryRunAll)
		},
		"has Liqo's webhook take a certificate": func(ctx context.Context) error {
			s := &corev1.Secret{ObjectMeta: named("default", "liqo-nonce")}
			s.Labels = map[string]string{"liqo.io/webhook": "true"}
			return c.Create(ctx, s, kube.DryRunAll)
		},
		"has Liqo act by its own Secret": func(ctx context.Context) error {
			s := &corev1.Secret{ObjectMeta: named(api.Namespace, "bourse-identity")}
			if err := at.Objects.Create(ctx, s); err == nil { // the agents of the lab keep theirs in files
				defer func() { _ = at.Objects.Delete(context.Background(), s) }()
			} else if !apierrors.IsAlreadyExists(err) {
				return err
			}
			return c.Update(ctx, &corev1.Secret{ObjectMeta: named(api.Namespace, "bourse-identity"),
				Data: map[string][]byte{"kubeconfig": []byte("{}")}}, kube.DryRunAll)
		},
		"labels kube-system":                label("kube-system"),
		"labels a namespace of the cluster": label("default"),
		"deletes a namespace": func(ctx context.Context) error {
			return c.Delete(ctx, &corev1.Namespace{ObjectMeta: named("", "default")}, kube.DryRunAll)
		},
		"makes a namespace of nobody": func(ctx context.Context) error {
			return c.Create(ctx, &corev1.Namespace{ObjectMeta: named("", "mine")}, kube.DryRunAll)
		},
		"deletes a pod that runs here": func(ctx context.Context) error {
			return c.Delete(ctx, &corev1.Pod{ObjectMeta: named("default", "own")}, kube.DryRunAll)
		},
		"runs a pod": func(ctx context.Context) error {
			return c.Create(ctx, &corev1.Pod{ObjectMeta: named("default", "p"),
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, kube.DryRunAll)
		},
		"makes itself an admin": func(ctx context.Context) error {
			return c.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: named("", "up"),
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: api.Namespace,
					Name: "bourse-agent"}}}, kube.DryRunAll)
		},
		"takes a policy away": func(ctx context.Context) error {
			return c.Delete(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: named("", "bourse-agent")},
				kube.DryRunAll)
		},
		"takes a webhook away": func(ctx context.Context) error {
			return c.Delete(ctx, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: named("", "liqo-validating-webhook")},
				kube.DryRunAll)
		},
	} {
		t.Run("an agent that "+what, func(t *testing.T) {
			if err := attempt(t.Context()); !apierrors.IsForbidden(err) {
				t.Errorf("%v", err)
			}
		})
	}
}
