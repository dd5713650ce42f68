// Package policies tests the admission policies of config/liqo on a real API server, with the
// kinds, roles and bindings of the pinned Liqo and no controllers: what each account that Liqo
// gives a consumer may write in a provider's cluster.
package policies

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/test/lab"
)

// The namespaces of the provider: a tenant namespace, one that Liqo mapped for rome, which is
// brokered, one that it mapped for milan, which was peered by hand, and one of the provider's own.
const (
	tenant = "liqo-tenant-rome"
	mapped = "demo-rome"
	byHand = "demo-milan"
	own    = "plain"
	// agentsUser is the agent's account.
	agentsUser = "system:serviceaccount:bourse:bourse-agent"
	// slice is the name of rome's ResourceSlice, user whom its certificate names.
	slice = "rome-slice"
	user  = "rome-slice-1a2b3c"
)

// world is one provider that lends to rome by Bourse, and to milan by hand.
type world struct {
	lab     *lab.Lab
	cluster *lab.Cluster
	admin   kube.Client
	keeper  kube.Client // an admin in the agent's name, who alone may write the list of consumers
	tries   atomic.Int64
	// listens is the port of this machine to which a port of the agent's pod is forwarded. At mute nobody listens.
	listens, mute int
}

var shared struct {
	once sync.Once
	world
	err error
}

func start(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("starts an API server")
	}
	shared.once.Do(func() { shared.err = shared.start(context.Background()) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return &shared.world
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.lab != nil {
		if err := shared.lab.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func (w *world) start(ctx context.Context) (err error) {
	if w.lab, err = lab.Start(ctx, lab.Options{Progress: os.Stderr}); err != nil {
		return err
	}
	liqo, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/liqotech/liqo").Output()
	if err != nil {
		return err
	}
	source := filepath.Join(strings.TrimSpace(string(liqo)), "deployments", "liqo")
	forwards, err := w.forwards()
	if err != nil {
		return err
	}
	w.cluster, err = w.lab.Cluster(ctx, lab.ClusterOptions{Name: "oslo", PortForwards: forwards,
		Light: true, CRDs: os.DirFS(filepath.Join(source, "charts", "liqo-crds", "crds"))})
	if err != nil {
		return err
	}
	if w.admin, err = kube.New(w.cluster.Config(), kube.Options{Scheme: scheme.New()}); err != nil {
		return err
	}
	keeps := w.cluster.Config()
	keeps.Impersonate = rest.ImpersonationConfig{UserName: agentsUser, Groups: []string{"system:masters"}}
	if w.keeper, err = kube.New(keeps, kube.Options{Scheme: scheme.New()}); err != nil {
		return err
	}
	var manifests [][]byte
	for _, name := range []string{"remote-controlplane", "virtual-kubelet-remote",
		"virtual-kubelet-remote-clusterwide", "virtual-kubelet-local"} {
		rules, err := os.ReadFile(filepath.Join(source, "files", "liqo-"+name+"-ClusterRole.yaml"))
		if err != nil {
			return err
		}
		head := "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: liqo-" + name + "}\n"
		manifests = append(manifests, append([]byte(head), rules...))
	}
	for _, file := range []string{"agent/namespace.yaml", "liqo/policies.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "config", file))
		if err != nil {
			return err
		}
		manifests = append(manifests, text)
	}
	manifests = append(manifests, []byte(lastPolicy))
	if err := w.cluster.Apply(ctx, manifests...); err != nil {
		return err
	}
	return errors.Join(w.namespaces(ctx), w.list(ctx), w.bound(ctx))
}

// namespaces makes them and their bindings, as Liqo does (tenant-controller, namespacemap-controller).
func (w *world) namespaces(ctx context.Context) error {
	for name, labels := range map[string]map[string]string{
		tenant: {"liqo.io/remote-cluster-id": "rome", "liqo.io/tenant-namespace": "true"},
		mapped: {"liqo.io/remote-cluster-id": "rome", "bourse.dev/guarded": "true"},
		byHand: {"liqo.io/remote-cluster-id": "milan"},
		own:    {},
	} {
		if err := w.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: labels}}); err != nil {
			return err
		}
	}
	return errors.Join(
		w.bind(ctx, tenant, "liqo-remote-controlplane", rbacv1.UserKind, "rome"),
		w.bind(ctx, mapped, "liqo-virtual-kubelet-remote", rbacv1.GroupKind, "rome"),
		w.bind(ctx, "", "liqo-virtual-kubelet-remote-clusterwide", rbacv1.GroupKind, "rome"),
		w.bind(ctx, byHand, "liqo-virtual-kubelet-remote", rbacv1.GroupKind, "milan"),
	)
}

// bind gives a role to a user or group, in a namespace or, where that is empty, in all.
func (w *world) bind(ctx context.Context, namespace, role, kind, name string) error {
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: role + "-" + name}
	if namespace == "" {
		return w.admin.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref})
	}
	return w.admin.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref})
}

// list names rome as the agent does (internal/liqo/posture), and waits until the policies know it.
func (w *world) list(ctx context.Context) error {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "bourse-consumers"}}
	if err := w.admin.Get(ctx, kube.ObjectKeyFromObject(m), m); kube.IgnoreNotFound(err) != nil {
		return err
	} else if err != nil {
		m.ResourceVersion = ""
		if err := w.keeper.Create(ctx, m); err != nil {
			return err
		}
	}
	m.Data = map[string]string{
		"rome": "brokered", "rome.at": "oslo", "rome.slices": slice + "=500", "rome.annotations": "lb.example/kind",
		user + ".of": "rome", user + ".storage": "fast", user + ".runtimes": "nvidia",
	}
	if err := w.keeper.Update(ctx, m); err != nil {
		return err
	}
	return await(func() error {
		refused := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "list-" + m.ResourceVersion}}
		if err := w.admin.Create(ctx, refused, kube.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("the policies do not know the list of consumers: %w", err)
		}
		return nil
	})
}

// lastPolicy refuses a ConfigMap that is named after the version of the list of consumers. An API server reads
// policies in the order in which they were made, and one list for all: once it refuses that, it applies all others.
const lastPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: last}
spec:
  failurePolicy: Ignore
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "object.metadata.name != 'list-' + params.metadata.resourceVersion"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: last}
spec:
  policyName: last
  paramRef: {namespace: bourse, name: bourse-consumers, parameterNotFoundAction: Allow}
  validationActions: [Deny]
`

// bound waits until the API server knows all bindings that namespaces made.
func (w *world) bound(ctx context.Context) error {
	for _, may := range []struct {
		account                       account
		namespace, verb, group, thing string
	}{
		{controlPlaneOf("rome"), tenant, "create", "offloading.liqo.io", "namespacemaps"},
		{kubeletOf("rome", user), mapped, "create", "", "configmaps"},
		{kubeletOf("rome", user), "", "get", "metrics.liqo.io", "scrape/metrics"},
		{kubeletOf("milan", "milan-slice-1"), byHand, "create", "", "configmaps"},
	} {
		resource, sub, _ := strings.Cut(may.thing, "/")
		if err := await(func() error {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: may.account.UserName, Groups: may.account.Groups,
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: may.namespace, Verb: may.verb,
					Group: may.group, Resource: resource, Subresource: sub},
			}}
			if err := w.admin.Create(ctx, review); err != nil || review.Status.Allowed {
				return err
			}
			return fmt.Errorf("the API server does not let the %s of %s %s %s", may.account.name, may.account.UserName, may.verb, may.thing)
		}); err != nil {
			return err
		}
	}
	return nil
}

// patience is how long anything may take on a machine that is busy with other things.
const patience = 2 * time.Minute

// await tries until there is no error.
func await(try func() error) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if err := try(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// eventually tries until there is no error.
func (w *world) eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	if err := await(try); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// account is a user whom Liqo certifies.
type account struct {
	name string
	rest.ImpersonationConfig
}

// The two that Liqo gives a consumer: its control plane, and the virtual kubelet of a slice.
func controlPlaneOf(consumer string) account {
	return account{"control plane", rest.ImpersonationConfig{UserName: consumer,
		Groups: []string{"liqo.io", "system:authenticated"}}}
}

func kubeletOf(consumer, user string) account {
	return account{"virtual kubelet", rest.ImpersonationConfig{UserName: user,
		Groups: []string{consumer, "system:authenticated"}}}
}

func (w *world) as(a account) (kube.Client, error) {
	config := w.cluster.Config()
	config.Impersonate = a.ImpersonationConfig
	return kube.New(config, kube.Options{Scheme: scheme.New()})
}

func (w *world) mustAs(t *testing.T, a account) kube.Client {
	t.Helper()
	c, err := w.as(a)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
