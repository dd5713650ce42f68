package policies

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/lab"
)

// The pods that KWOK runs: one of the agent's Deployment, others of its namespace, and one of another namespace.
const (
	agentPod = "bourse-agent-5c9d8f7b6-x2k4q"
	database = "database"
	// lookalike begins as the agent's pods do.
	lookalike = "bourse-agent-backup-tool-0"
)

// running are their namespaces.
var running = map[string]string{agentPod: api.Namespace, database: api.Namespace, lookalike: api.Namespace, "site": own}

// forwards are the ports that KWOK forwards.
func (w *world) forwards() (all []lab.PortForward, err error) {
	if w.listens, err = lab.FreePort(); err != nil {
		return nil, err
	}
	if w.mute, err = lab.FreePort(); err != nil {
		return nil, err
	}
	for pod, namespace := range running {
		all = append(all, lab.PortForward{Namespace: namespace, Pod: pod,
			Ports: map[int]int{questions: w.listens, mutePort: w.mute}})
	}
	return all, nil
}

var pods struct {
	once sync.Once
	err  error
}

// runPods makes the pods, once, and waits until they run.
func (w *world) runPods(t *testing.T) {
	t.Helper()
	w.applyRequests(t)
	pods.once.Do(func() {
		if pods.err = w.cluster.AddNodes(t.Context(), lab.Node{Name: "kwok"}); pods.err != nil {
			return
		}
		for name, namespace := range running {
			no, yes := false, true
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{
				NodeName: "kwok",
				Containers: []corev1.Container{{Name: "c", Image: "localhost/c", SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no, RunAsNonRoot: &yes,
					Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}}}}}
			if pods.err = w.admin.Create(t.Context(), p); pods.err != nil {
				return
			}
			if pods.err = await(func() error {
				if err := w.admin.Get(t.Context(), kube.ObjectKeyFromObject(p), p); err != nil {
					return err
				}
				if p.Status.Phase != corev1.PodRunning {
					return fmt.Errorf("pod %s is %s", p.Name, p.Status.Phase)
				}
				return nil
			}); pods.err != nil {
				return
			}
		}
	})
	if pods.err != nil {
		t.Fatal(pods.err)
	}
}

// configOf is the way in of a user without any group but the one that all have.
func (w *world) configOf(name string) *rest.Config {
	config := w.cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	return config
}

// portForward tries one of the two ways to open streams to a pod.
func portForward(t *testing.T, config *rest.Config, webSocket bool, namespace, pod string) error {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	at := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
	var dialer httpstream.Dialer
	if webSocket {
		dialer, err = portforward.NewSPDYOverWebsocketDialer(at, config)
	} else {
		var transport http.RoundTripper
		var upgrader spdy.Upgrader
		transport, upgrader, err = spdy.RoundTripperFor(config)
		dialer = spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
	}
	if err != nil {
		t.Fatal(err)
	}
	streams, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		if upgrade, is := errors.AsType[*httpstream.UpgradeFailureError](err); is {
			err = upgrade.Cause
		}
		return err
	}
	return streams.Close()
}

// With the right to port-forward in the agent's namespace a user reaches the agent's pods there, by WebSocket and by
// SPDY, and learns of no other pod whether it is there. Who may run commands there reaches all of them.
func TestPodsThatAPortForwardReaches(t *testing.T) {
	w := start(t)
	w.runPods(t)
	role := func(name string, rules ...rbacv1.PolicyRule) error {
		return w.admin.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	}
	rule := func(resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
	}
	forwarder := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "forwarders"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "bourse-port-forward"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "forwarder"}}}
	if err := errors.Join(w.admin.Create(t.Context(), forwarder),
		role("forwards", rule("pods/portforward", "get", "create")), role("gets", rule("pods/portforward", "get")),
		role("creates", rule("pods/portforward", "create")), role("executes", rule("pods/exec", "create")),
		w.bind(t.Context(), own, "forwards", rbacv1.UserKind, "forwarder"),
		w.bind(t.Context(), api.Namespace, "gets", rbacv1.UserKind, "getter"),
		w.bind(t.Context(), api.Namespace, "creates", rbacv1.UserKind, "creator"),
		w.bind(t.Context(), api.Namespace, "forwards", rbacv1.UserKind, "operator"),
		w.bind(t.Context(), api.Namespace, "executes", rbacv1.UserKind, "operator"),
		w.bind(t.Context(), own, "executes", rbacv1.UserKind, "forwarder")); err != nil {
		t.Fatal(err)
	}
	const reached, policy, right, missing = "it is reached", "the policy refuses", "the right is missing", "there is none"
	what := func(err error) string {
		switch {
		case err == nil:
			return reached
		case isRefusal(err, "reaches the agent's pods only"):
			return policy
		case apierrors.IsForbidden(err) && !isPolicy(err):
			return right
		case apierrors.IsNotFound(err):
			return missing
		}
		return err.Error()
	}
	for _, c := range []struct{ user, namespace, pod, webSocket, spdy string }{
		{"forwarder", api.Namespace, agentPod, reached, reached},
		{"forwarder", api.Namespace, database, policy, policy},
		{"forwarder", api.Namespace, lookalike, policy, policy},
		{"forwarder", api.Namespace, "nothing", policy, policy},
		{"forwarder", api.Namespace, "bourse-agent-5c9d8f7b6-zzzzz", missing, missing},
		{"forwarder", own, "site", reached, reached},
		{"operator", api.Namespace, agentPod, reached, reached},
		{"operator", api.Namespace, database, reached, reached},
		{"operator", api.Namespace, "nothing", missing, missing},
		{"getter", api.Namespace, agentPod, right, right},
		{"creator", api.Namespace, agentPod, right, reached},
		{"nobody", api.Namespace, agentPod, right, right},
		{"getter", own, "site", right, right},
	} {
		for webSocket, want := range map[bool]string{true: c.webSocket, false: c.spdy} {
			w.eventually(t, fmt.Sprintf("%s, pod %s in %s, WebSocket: %t", c.user, c.pod, c.namespace, webSocket), func() error {
				if got := what(portForward(t, w.configOf(c.user), webSocket, c.namespace, c.pod)); got != want {
					return fmt.Errorf("%s, want: %s", got, want)
				}
				return nil
			})
		}
	}
}
