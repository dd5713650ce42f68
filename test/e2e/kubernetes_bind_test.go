package e2e

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/cli"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
	"github.com/bourse-dev/bourse/test/lab"
)

func accountOf(cluster string) kube.ObjectKey {
	return kube.ObjectKey{Namespace: kubernetes.Namespace(cluster), Name: kubernetes.Account}
}

// milanIsBound demands that the broker, with the rights of config/kubernetes, has bound milan,
// which came by REST, and binds it again; so that who may make tokens there, and nothing else, can
// give milan a way in.
func milanIsBound(t *testing.T, c *lab.Cluster, admin kube.Client) {
	bound := func(ctx context.Context) error {
		err := admin.Get(ctx, accountOf("milan"), &rbacv1.RoleBinding{})
		if err == nil {
			err = admin.Get(ctx, accountOf("milan"), &corev1.ServiceAccount{})
		}
		return err
	}
	eventually(t, "milan is bound", bound)
	for _, o := range []kube.Object{&rbacv1.RoleBinding{}, &corev1.ServiceAccount{}} {
		o.SetNamespace(accountOf("milan").Namespace)
		o.SetName(kubernetes.Account)
		if err := admin.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		eventually(t, "milan is bound again", bound)
	}

	at := metav1.ObjectMeta{Namespace: "bourse-broker", Name: "issuer"}
	for _, o := range []kube.Object{
		&corev1.ServiceAccount{ObjectMeta: at},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: at.Name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"},
				ResourceNames: []string{kubernetes.Account}, Verbs: []string{"create"}},
		}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: at.Name},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: at.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: at.Namespace, Name: at.Name}}},
	} {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	config, err := c.ServiceAccount(t.Context(), at.Namespace, at.Name)
	if err != nil {
		t.Fatal(err)
	}
	issuer := filepath.Join(c.Dir(), "issuer.kubeconfig")
	if err := lab.WriteKubeconfig(issuer, "broker", config); err != nil {
		t.Fatal(err)
	}
	tokens, err := kube.New(config, kube.Options{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the issuer may make tokens", func(ctx context.Context) error {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Namespace: accountOf("milan").Namespace, Name: kubernetes.Account}}
		return tokens.SubResource("token").Create(ctx, account, &authenticationv1.TokenRequest{})
	})
	milans, err := kube.New(access(t, kubeconfigBy(t, c, issuer, "milan"), "milan").Config, kube.Options{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "milan's token is good for its reservations", func(ctx context.Context) error {
		return milans.List(ctx, kubernetes.List(kubernetes.Reservations), kube.InNamespace(kubernetes.Namespace("milan")))
	})
	var said bytes.Buffer
	if code := cli.Main([]string{"broker", "kubeconfig", "nobody", "--kubeconfig", issuer},
		io.Discard, &said); code == 0 || !strings.Contains(said.String(), "the broker binds its members") {
		t.Errorf("of one that is not bound: exit code %d, %s", code, said.String())
	}
}

// theBrokerMayNoMore tries, as the broker, what neither RBAC nor config/kubernetes/policy.yaml allows.
func theBrokerMayNoMore(t *testing.T, own *rest.Config, admin kube.Client) {
	broker, err := kube.New(own, kube.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const kind = "ClusterRole"
	milans := kubernetes.Namespace("milan")
	account := func(namespace, name string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	named := func(name, label string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{kubernetes.ClusterLabel: label}}}
	}
	subject := func(namespace string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: kubernetes.Account, Namespace: namespace}
	}
	binding := func(namespace, name string, role rbacv1.RoleRef, who rbacv1.Subject) *rbacv1.RoleBinding {
		role.APIGroup = rbacv1.GroupName
		return &rbacv1.RoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(),
			Kind: "RoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: role, Subjects: []rbacv1.Subject{who}}
	}
	member := rbacv1.RoleRef{Kind: kind, Name: kubernetes.Account}
	// What is applied RBAC goes through by its name, so that the policy is what refuses it, unless
	// the rights are not the broker's to give.
	apply := func(o kube.Object) error {
		//lint:ignore SA1019 of an object that is typed
		return broker.Patch(t.Context(), o, kube.Apply, kube.FieldOwner("test"), kube.ForceOwnership)
	}
	typed := func(a *corev1.ServiceAccount) *corev1.ServiceAccount {
		a.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}
		return a
	}
	if err := admin.Create(t.Context(), account("default", kubernetes.Account)); err != nil {
		t.Fatal(err)
	}
	turins := kubernetes.Namespace("turin") // is no member: nobody binds it
	if err := broker.Create(t.Context(), named(turins, "turin")); err != nil {
		t.Errorf("a member's namespace: %v", err)
	}
	for name, do := range map[string]func() error{
		"a namespace of another name":   func() error { return broker.Create(t.Context(), named("evil", "evil")) },
		"a namespace without the label": func() error { return broker.Create(t.Context(), named("bourse-member-evil", "")) },
		"change a namespace":            func() error { return broker.Update(t.Context(), named(milans, "evil")) },
		"delete a namespace":            func() error { return broker.Delete(t.Context(), named(milans, "milan")) },
		"an account of another name":    func() error { return apply(typed(account(milans, "evil"))) },
		"an account elsewhere":          func() error { return apply(typed(account("kube-system", kubernetes.Account))) },
		"delete an account elsewhere": func() error {
			return broker.Delete(t.Context(),
				account("default", kubernetes.Account))
		},
		"a binding of another name": func() error { return apply(binding(milans, "evil", member, subject(milans))) },
		"a binding elsewhere": func() error {
			return apply(binding("kube-system",
				kubernetes.Account, member, subject("kube-system")))
		},
		"rights that it does not have": func() error {
			return apply(binding(turins, kubernetes.Account, rbacv1.RoleRef{Kind: kind, Name: "cluster-admin"}, subject(turins)))
		},
		"rights that are not a member's": func() error {
			return apply(binding(turins, kubernetes.Account, rbacv1.RoleRef{Kind: kind, Name: "bourse-broker-kubernetes"},
				subject(turins)))
		},
		"let another's account in": func() error {
			return apply(binding(turins, kubernetes.Account, member, subject(kubernetes.Namespace("rome"))))
		},
		"let a person in": func() error {
			return apply(binding(turins, kubernetes.Account, member,
				rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "eve"}))
		},
		"read Secrets": func() error {
			return broker.List(t.Context(),
				&corev1.SecretList{}, kube.InNamespace(milans))
		},
		"list accounts of all names": func() error { return broker.List(t.Context(), &corev1.ServiceAccountList{}) },
		"list bindings of all names": func() error { return broker.List(t.Context(), &rbacv1.RoleBindingList{}) },
	} {
		if err := do(); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
