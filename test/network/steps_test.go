package network

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// borrow makes a namespace at rome, and in it a request for resources of milan with a network,
// which offloads it.
func (w *world) borrow(t *testing.T, name string) *api.ResourceRequest {
	t.Helper()
	if err := w.rome.Objects.Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
	amounts := api.Resources{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	r := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name}, Spec: api.ResourceRequestSpec{
		Request: api.Request{Resources: amounts, Target: w.milan.Name, Network: api.NetworkWireGuard},
		Offload: &api.Offload{Namespaces: []string{name}},
	}}
	if err := w.rome.Objects.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// becomes waits for the state of a request.
func (w *world) becomes(t *testing.T, r *api.ResourceRequest, state api.State) {
	t.Helper()
	eventually(t, r.Name+" is "+string(state), func(ctx context.Context) error {
		err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(r), r)
		if err == nil && r.Status.State != state {
			var peerings api.PeeringList
			err = fmt.Errorf("it is %s: %s; %w", r.Status.State, r.Status.Message, w.rome.Objects.List(ctx, &peerings))
			for _, p := range peerings.Items {
				err = fmt.Errorf("%w; %s is %s, %s: %s %+v", err, p.Name,
					p.Status.State, p.Status.Step, p.Status.Message, p.Status.Conditions)
			}
		}
		return err
	})
}

// serve makes a pod that answers HTTP, on a cluster's own node or, with remote, on a virtual one,
// and waits until it is Ready.
func (w *world) serve(t *testing.T, m *federation.Member, namespace, name string, remote bool) *corev1.Pod {
	t.Helper()
	grace, links := int64(1), false
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: name, Labels: map[string]string{"app": name}}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace, EnableServiceLinks: &links, NodeSelector: map[string]string{corev1.LabelHostname: m.Name},
		Containers: []corev1.Container{{
			Name: "web", Image: "web", Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
			}},
		}},
	}}
	if remote {
		p.Spec.NodeSelector = map[string]string{"liqo.io/type": "virtual-node"}
	}
	eventually(t, "a pod can be made in "+namespace, func(ctx context.Context) error { return m.Objects.Create(ctx, p) })
	w.ready(t, m, p)
	return p
}

// ready waits until a pod is Ready, and reads it again.
func (w *world) ready(t *testing.T, m *federation.Member, p *corev1.Pod) {
	t.Helper()
	eventually(t, p.Name+" is Ready at "+m.Name, func(ctx context.Context) error {
		if err := m.Objects.Get(ctx, kube.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.Status.PodIP != "" {
				return nil
			}
		}
		return fmt.Errorf("it is %s: %+v", p.Status.Phase, p.Status.Conditions)
	})
}

// answers waits until a pod gets an answer from an address, and returns it.
func (w *world) answers(t *testing.T, from *corev1.Pod, host, want string) string {
	t.Helper()
	var got string
	eventually(t, fmt.Sprintf("%s gets an answer of %s from %s", from.Name, want, host),
		func(ctx context.Context) (err error) {
			got, err = w.in(ctx, string(from.UID), "get http://%s", host)
			if err == nil && !strings.HasPrefix(got, want+" answers ") {
				err = fmt.Errorf("it gets %q", got)
			}
			return err
		})
	return strings.TrimPrefix(got, want+" answers ")
}

// networkIs waits for the condition NetworkReady of a request's reservation.
func (w *world) networkIs(t *testing.T, r *api.ResourceRequest, status metav1.ConditionStatus, reason string) {
	t.Helper()
	eventually(t, "the network of "+r.Name+" is "+reason, func(ctx context.Context) error {
		var i api.ReservationInstruction
		if err := w.rome.Objects.Get(ctx, kube.ObjectKey{Namespace: r.Namespace, Name: r.Status.Reservation},
			&i); err != nil {
			return err
		}
		c := meta.FindStatusCondition(i.Status.Conditions, api.ConditionNetworkReady)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("it says %+v", c)
		}
		return nil
	})
}
