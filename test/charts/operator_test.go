package charts

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	user "github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/cli"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// inPod is a cluster where a broker runs: a process of this machine, in which KWOK runs what exec runs in its pod.
type inPod struct {
	*lab.Cluster
	kube.Client
	bourse, runtime string
	stop            context.CancelFunc
}

const hallNamespace = "bourse-broker"

func startInPod(t *testing.T) *inPod {
	t.Helper()
	l := lab.Test(t)
	h := &inPod{runtime: t.TempDir()}
	var err error
	if h.bourse, err = federation.Build(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if h.Cluster, err = l.Cluster(t.Context(), lab.ClusterOptions{Name: "hall", Light: true, Nodes: []lab.Node{{Name: "hall-1"}},
		Execs: []lab.Exec{{Namespace: hallNamespace, Pod: "broker-0", Env: map[string]string{"XDG_RUNTIME_DIR": h.runtime}}},
	}); err != nil {
		t.Fatal(err)
	}
	if h.Client, err = kube.New(h.Config(), kube.Options{Scheme: scheme.New()}); err != nil {
		t.Fatal(err)
	}
	if err := h.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hallNamespace}}); err != nil {
		t.Fatal(err)
	}
	return h
}

// startBroker starts the broker's process.
func (h *inPod) startBroker(t *testing.T, dir string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	broker := exec.CommandContext(ctx, h.bourse, "broker", "--dir", dir, "--listen", "127.0.0.1:0", "--host", "broker.example.org",
		"--url", "https://broker.example.org:7443")
	broker.Env = append(broker.Environ(), "XDG_RUNTIME_DIR="+h.runtime)
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	h.stop = func() { stop(); _ = broker.Wait() }
	t.Cleanup(h.stop)
}

// runPod makes a pod of a chart, but for its program.
func runPod(t *testing.T, c kube.Client, namespace, name, node, program string) {
	t.Helper()
	no, yes, user := false, true, int64(65532)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		Labels: map[string]string{"app.kubernetes.io/name": "bourse-broker"}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "broker", Image: "localhost/bourse",
			Command: []string{program}, SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, RunAsNonRoot: &yes,
				RunAsUser: &user, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}}}}}
	if err := c.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// run runs a command of the operator by a kubeconfig.
func (h *inPod) run(t *testing.T, kubeconfig string, args ...string) (out, says string) {
	t.Helper()
	var stdout, progress bytes.Buffer
	cli.Main(append([]string{"broker"}, append(args, "--kubeconfig", kubeconfig)...), &stdout, &progress)
	return stdout.String(), progress.String()
}

// An operator acts at a broker in a pod with a kubeconfig alone. list on pods, and get and create on pods/exec there, are
// all the rights that it needs. What is missing is named.
func TestOperatorByExec(t *testing.T) {
	t.Parallel()
	h := startInPod(t)
	if _, says := h.run(t, h.Kubeconfig(), "members"); !strings.Contains(says, "NotFound: namespace bourse-broker has no pod of a broker") {
		t.Errorf("without a pod: %s", says)
	}
	runPod(t, h.Client, hallNamespace, "broker-0", "hall-1", h.bourse)
	waitsFor := func(what, want string, args ...string) {
		t.Helper()
		says := ""
		for end := time.Now().Add(30 * time.Second); !strings.Contains(says, want); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %s", what, says)
			}
			out, progress := h.run(t, h.Kubeconfig(), args...)
			says = out + progress
		}
	}
	waitsFor("without the broker", "no broker listens at", "status")
	dir := t.TempDir()
	h.startBroker(t, dir)
	waitsFor("the broker starts", "members", "status")

	operator := h.operator(t)
	out, says := h.run(t, operator, "token", "create", "--cluster", "rome", "--ttl", "1h", "-o", "secret")
	if !strings.Contains(out, "kind: Secret") || !strings.Contains(says, "at the broker in namespace bourse-broker of operator (https://") {
		t.Errorf("a token as an operator: %s\n%s", out, says)
	}
	if out, says := h.run(t, operator, "token", "list"); !strings.Contains(out, "rome") {
		t.Errorf("the tokens: %s\n%s", out, says)
	}
	var backup bytes.Buffer
	config, err := h.ServiceAccount(t.Context(), hallNamespace, "operator")
	if err != nil {
		t.Fatal(err)
	}
	if err := user.NewBroker(config, hallNamespace).Backup(t.Context(), &backup); err != nil || backup.Len() < 1000 {
		t.Errorf("a backup of %d bytes: %v", backup.Len(), err)
	}
	if _, says := h.run(t, h.kubeconfig(t, "reader"), "members"); !strings.Contains(says, "Forbidden") || !strings.Contains(says, "pods/exec") {
		t.Errorf("without create on pods/exec: %s", says)
	}
	if _, says := h.run(t, operator, "members", "-n", "elsewhere"); !strings.Contains(says, "Forbidden") {
		t.Errorf("in a namespace without rights: %s", says)
	}

	h.stop() // while the pod stays ready
	waitsFor("the broker ended", "no broker listens at", "members")
}

// operator is a ServiceAccount with the rights of an operator.
func (h *inPod) operator(t *testing.T) (kubeconfig string) {
	t.Helper()
	for name, rules := range map[string][]rbacv1.PolicyRule{
		"operator": {{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
			{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"get", "create"}}},
		"reader": {{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}},
	} {
		at := metav1.ObjectMeta{Namespace: hallNamespace, Name: name}
		for _, o := range []kube.Object{&corev1.ServiceAccount{ObjectMeta: at}, &rbacv1.Role{ObjectMeta: at, Rules: rules},
			&rbacv1.RoleBinding{ObjectMeta: at, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: hallNamespace, Name: name}}}} {
			if err := h.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	return h.kubeconfig(t, "operator")
}

// kubeconfig writes that of a ServiceAccount.
func (h *inPod) kubeconfig(t *testing.T, name string) string {
	t.Helper()
	config, err := h.ServiceAccount(t.Context(), hallNamespace, name)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := lab.WriteKubeconfig(path, name, config); err != nil {
		t.Fatal(err)
	}
	return path
}
