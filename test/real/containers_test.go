package real

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/test/lab"
)

// A ResourceRequest ends in a container at the provider. Its people look into it with kubectl as if
// it ran at home. Deleted pods end as their programs do, and an eviction ends the rest.
func TestContainers(t *testing.T) {
	w := start(t)
	r := w.borrow(t)
	there, here := w.observe(t, w.milan, "demo-rome"), w.observe(t, w.rome, "demo")

	w.run(t, "site", nil, 1)
	w.run(t, "asker", nil, 1)
	w.throughAService(t)
	if out := w.ask(t, "logs", "site"); !strings.Contains(out, "answered") {
		t.Errorf("its log says %q", out)
	}
	if out := w.ask(t, "exec", "site", "--", "busybox", "hostname"); out != "site" {
		t.Errorf("in its container its name is %q", out)
	}
	w.forwards(t, "site")

	// A program that ends when it is asked to, one that is ended by the signal, and one that ignores it.
	w.run(t, "ends", []string{"sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"}, 30)
	w.run(t, "fails", []string{"sh", "-c", "trap 'exit 3' TERM; while :; do sleep 0.1; done"}, 30)
	w.run(t, "stays", []string{"sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"}, 2)
	for _, name := range []string{"ends", "fails", "stays"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}
		if err := w.rome.Objects.Delete(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	ends := func(pod, phase string) {
		t.Helper()
		if seen, want := there.goes(t, pod), []string{"Pending", "Running", phase, "gone"}; !slices.Equal(seen, want) {
			t.Errorf("%s was %v at milan, and was to be %v", pod, seen, want)
		}
		here.goes(t, pod) // the virtual kubelet may miss a phase
	}
	ends("ends", "Succeeded(0)")
	ends("fails", "Failed(3)")
	ends("stays", "Failed(137)")

	if _, err := w.milan.Evict(t.Context(), "rome"); err != nil {
		t.Fatal(err)
	}
	ends("site", "Failed(2)") // as a Go program ends that handles no signal, and is the first of its container
	ends("asker", "Failed(2)")
	w.becomes(t, r, api.Released)
}

// borrow reserves some of milan, and offloads namespace demo.
func (w *world) borrow(t *testing.T) *api.ResourceRequest {
	t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	r := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "demo"}, Spec: api.ResourceRequestSpec{
		Request: api.Request{Target: "milan", Resources: api.Resources{
			corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("512Mi"),
		}},
		Offload: &api.Offload{Namespaces: []string{"demo"}},
	}}
	for _, o := range []kube.Object{n, r} {
		if err := w.rome.Objects.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.becomes(t, r, api.Active)
	return r
}

func (w *world) becomes(t *testing.T, r *api.ResourceRequest, state api.State) {
	t.Helper()
	eventually(t, r.Name+" is "+string(state), func(ctx context.Context) error {
		err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(r), r)
		if err == nil && r.Status.State != state {
			err = fmt.Errorf("it is %s: %s", r.Status.State, r.Status.Message)
		}
		return err
	})
}

// run makes a pod of rome that runs at milan, and waits until it is Ready. Without a command its
// program answers HTTP. The grace is in seconds.
func (w *world) run(t *testing.T, name string, command []string, grace int64) {
	t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace, NodeSelector: map[string]string{"liqo.io/type": "virtual-node"},
			Containers: []corev1.Container{{
				Name: "work", Image: lab.Image, Command: command,
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
				}},
			}},
		},
	}
	eventually(t, "a pod can be made", func(ctx context.Context) error { return w.rome.Objects.Create(ctx, p) })
	eventually(t, name+" is Ready", func(ctx context.Context) error {
		if err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("it is %+v", p.Status)
	})
}

// throughAService demands an answer of pod site through a Service of rome, at milan, where asker runs.
func (w *world) throughAService(t *testing.T) {
	t.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "front"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "site"},
		Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
	if err := w.rome.Objects.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	copied := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "front"}}
	eventually(t, "milan has the Service", func(ctx context.Context) error {
		return w.milan.Objects.Get(ctx, kube.ObjectKeyFromObject(copied), copied)
	})
	eventually(t, "site answers asker", func(ctx context.Context) error {
		out, err := w.kubectlAtRome(ctx, "exec", "asker", "--", "get", "http://"+copied.Spec.ClusterIP)
		if err == nil && !strings.HasPrefix(out, "site answers ") {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
}

// forwards demands an answer of a pod at milan by streams of its kubelet, and the kubelet's words where nobody listens.
func (w *world) forwards(t *testing.T, pod string) {
	t.Helper()
	opened, err := cluster.OpenPod(t.Context(), w.milan.Cluster.Config(), "demo-rome", pod)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = opened.Close() }()
	ask := func(port uint16) (string, error) {
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return opened.Dial(ctx, port)
		}}
		defer transport.CloseIdleConnections()
		answer, err := (&http.Client{Transport: transport}).Get("http://" + pod)
		if err != nil {
			return "", err
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		return string(text), err
	}
	for range 5 {
		if out, err := ask(8080); err != nil || !strings.HasPrefix(out, pod+" answers ") {
			t.Errorf("by port-forward it says %q, %v", out, err)
		}
	}
	if _, err := ask(1); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("at a port where nobody listens: %v", err)
	}
}

// ask is what kubectl prints at rome, where the pods' virtual node is.
func (w *world) ask(t *testing.T, args ...string) string {
	t.Helper()
	var out string
	eventually(t, "kubectl "+strings.Join(args, " "), func(ctx context.Context) (err error) {
		out, err = w.kubectlAtRome(ctx, args...)
		return err
	})
	return out
}

func (w *world) kubectlAtRome(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, w.kubectl, append([]string{
		"--kubeconfig", w.rome.Cluster.Kubeconfig(), "--namespace", "demo",
	}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), err
}
