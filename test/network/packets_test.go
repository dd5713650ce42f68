package network

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// A request with a network ends in packets: a pod at rome and the pod that rome runs at milan reach
// each other, although both have addresses of the same network. The steps share one federation, and
// the first reservation.
func TestPacketsFlow(t *testing.T) {
	w := start(t)
	w.runsScripts(t)
	r := w.borrow(t, "demo")
	w.becomes(t, r, api.Active)
	here := w.serve(t, w.rome, "demo", "here", false)
	there := w.serve(t, w.rome, "demo", "there", true)
	twin := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "there"}}
	w.ready(t, w.milan, twin)
	if here.Status.PodIP != twin.Status.PodIP {
		t.Errorf("the pods have the addresses %s and %s, and were to have the same", here.Status.PodIP, twin.Status.PodIP)
	}

	before := w.transferred(t)
	seen := w.answers(t, here, there.Status.PodIP+":8080", "there")
	w.answers(t, twin, seen+":8080", "here")
	w.throughAService(t, here)
	if after := w.transferred(t); after <= before {
		t.Errorf("the tunnel has carried %d bytes, and %d before", after, before)
	}

	w.breaks(t, r)
	flows := func(when string) {
		t.Helper()
		t.Log(when)
		w.answers(t, here, there.Status.PodIP+":8080", "there")
		w.answers(t, twin, seen+":8080", "here")
	}
	flows("after the link was down")
	w.rome.Agent(0).Kill()
	w.milan.Agent(0).Kill()
	flows("while both agents are dead")
	for _, m := range w.Members {
		if _, err := m.StartAgent(0); err != nil {
			t.Fatal(err)
		}
	}
	w.killGateway(t, w.milan, "rome")
	flows("after the gateway of milan was killed")
	w.killGateway(t, w.rome, "milan")
	flows("after the gateway of rome was killed")
	w.networkIs(t, r, metav1.ConditionTrue, "Connected")
	w.rotates(t, w.rome, w.milan)
	flows("after rome's gateway has other keys")

	networks := w.networks(t)
	second := w.borrow(t, "second")
	w.becomes(t, second, api.Active)
	w.resize(t, second)
	local := w.serve(t, w.rome, "second", "beside", false)
	other := w.serve(t, w.rome, "second", "other", true)
	w.answers(t, local, other.Status.PodIP+":8080", "other")
	twins := [2]*corev1.Pod{twin, {ObjectMeta: metav1.ObjectMeta{Namespace: "second-rome", Name: "other"}}}
	w.ready(t, w.milan, twins[1])
	w.isolates(t, twins[0], twins[1], seen)
	if now := w.networks(t); now != networks {
		t.Errorf("with the second reservation the networks are %s, before they were %s", now, networks)
	}
	w.end(t, r, "there")
	w.answers(t, local, other.Status.PodIP+":8080", "other")
	w.end(t, second, "other")
	w.nothingLeft(t)
	w.usesAHandMadeNetwork(t)
	w.through(t)
}

// runsScripts demands that the machine has what Liqo's data plane needs, and that the error of a
// script that fails has its output.
func (w *world) runsScripts(t *testing.T) {
	t.Helper()
	out, err := w.machine.Run(t.Context(), `
/bin/ip link add g type geneve id 1 remote 192.0.2.9
/bin/ip link add w type wireguard
wg show w
nft list tables
/bin/ip link delete g
/bin/ip link delete w`)
	if err != nil || !strings.Contains(out, "interface: w") || !strings.Contains(out, "table ip machine") {
		t.Errorf("a script prints %s, %v", out, err)
	}
	if out, err := w.machine.Run(t.Context(), "echo before; false; echo after"); err == nil ||
		!strings.Contains(err.Error(), "before") || out == "" {
		t.Errorf("a script that fails prints %q, %v", out, err)
	}
}

// throughAService demands that a pod reaches a Service of rome whose only endpoint runs at milan.
func (w *world) throughAService(t *testing.T, from *corev1.Pod) {
	t.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "site"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "there"}, Ports: []corev1.ServicePort{{Port: 80,
			TargetPort: intstr.FromInt32(8080)}},
	}}
	if err := w.rome.Objects.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	w.answers(t, from, s.Spec.ClusterIP, "there")
}

// gateway returns the pod of a cluster's gateway for a peer.
func (w *world) gateway(ctx context.Context, at *federation.Member, peer string) (*corev1.Pod, error) {
	var pods corev1.PodList
	gateways := kube.MatchingLabels{"networking.liqo.io/component": "gateway"}
	err := at.Objects.List(ctx, &pods, kube.InNamespace("liqo-tenant-"+peer), gateways)
	if err == nil && len(pods.Items) != 1 {
		err = fmt.Errorf("%s has %d gateways for %s", at.Name, len(pods.Items), peer)
	}
	if err != nil {
		return nil, err
	}
	return &pods.Items[0], nil
}

// transferred is how many bytes the tunnel has carried, in both directions, as rome's gateway counts.
func (w *world) transferred(t *testing.T) int {
	t.Helper()
	var received, sent int
	eventually(t, "rome's gateway counts", func(ctx context.Context) error {
		gateway, err := w.gateway(ctx, w.rome, "milan")
		if err != nil {
			return err
		}
		var key string
		out, err := w.in(ctx, string(gateway.UID), "wg show liqo-tunnel transfer")
		if _, scanned := fmt.Sscan(out, &key, &received, &sent); err != nil || scanned != nil {
			return fmt.Errorf("wg says %q, %w, %w", out, err, scanned)
		}
		return nil
	})
	return received + sent
}

// breaks cuts milan's link and mends it, and demands that NetworkReady follows.
func (w *world) breaks(t *testing.T, r *api.ResourceRequest) {
	t.Helper()
	w.networkIs(t, r, metav1.ConditionTrue, "Connected")
	for _, change := range []struct {
		link, reason string
		status       metav1.ConditionStatus
	}{{"down", "Tunnel", metav1.ConditionFalse}, {"up", "Connected", metav1.ConditionTrue}} {
		if _, err := w.machine.Run(t.Context(), "/bin/ip link set lan-milan "+change.link); err != nil {
			t.Fatal(err)
		}
		w.networkIs(t, r, change.status, change.reason)
	}
}

// killGateway deletes the pod of a gateway and waits until another one runs.
func (w *world) killGateway(t *testing.T, at *federation.Member, peer string) {
	t.Helper()
	var old *corev1.Pod
	eventually(t, at.Name+" has a gateway", func(ctx context.Context) (err error) {
		old, err = w.gateway(ctx, at, peer)
		return err
	})
	if err := at.Objects.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	eventually(t, at.Name+" has another gateway", func(ctx context.Context) error {
		next, err := w.gateway(ctx, at, peer)
		if err == nil && (next.UID == old.UID || next.Status.Phase != corev1.PodRunning) {
			err = fmt.Errorf("%s is %s", next.Name, next.Status.Phase)
		}
		return err
	})
}

// rotates removes the keys of a gateway and restarts it: the agent makes others, and tells the other side.
func (w *world) rotates(t *testing.T, at, peer *federation.Member) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-" + peer.Name, Name: "bourse-gateway"}}
	if err := at.Objects.Get(t.Context(), kube.ObjectKeyFromObject(secret), secret); err != nil {
		t.Fatal(err)
	}
	old := secret.Data["publicKey"]
	if err := at.Objects.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	eventually(t, peer.Name+" has the new key of "+at.Name, func(ctx context.Context) error {
		key := networkingv1beta1.PublicKey{}
		err := peer.Objects.Get(ctx, kube.ObjectKey{Namespace: "liqo-tenant-" + at.Name, Name: at.Name}, &key)
		if err == nil && bytes.Equal(key.Spec.PublicKey, old) {
			err = fmt.Errorf("it has the old one")
		}
		return err
	})
	w.killGateway(t, at, peer.Name)
}

// resize makes a request ask for more and waits until it has it.
func (w *world) resize(t *testing.T, r *api.ResourceRequest) {
	t.Helper()
	more := resource.MustParse("2")
	eventually(t, r.Name+" asks for more", func(ctx context.Context) error {
		if err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		r.Spec.Resources[corev1.ResourceCPU] = more
		return w.rome.Objects.Update(ctx, r)
	})
	eventually(t, r.Name+" has more", func(ctx context.Context) error {
		i := api.ReservationInstruction{}
		err := w.rome.Objects.Get(ctx, kube.ObjectKey{Namespace: r.Namespace, Name: r.Status.Reservation}, &i)
		if has := i.Spec.Resources[corev1.ResourceCPU]; err == nil && has.Cmp(more) != 0 {
			err = fmt.Errorf("it has %s", has.String())
		}
		return err
	})
}

// networks names what the two clusters have of networks.
func (w *world) networks(t *testing.T) string {
	t.Helper()
	var all []string
	for _, m := range w.Members {
		var configurations networkingv1beta1.ConfigurationList
		var connections networkingv1beta1.ConnectionList
		if err := m.Objects.List(t.Context(), &configurations); err != nil {
			t.Fatal(err)
		}
		if err := m.Objects.List(t.Context(), &connections); err != nil {
			t.Fatal(err)
		}
		for _, c := range configurations.Items {
			all = append(all, m.Name+" "+c.Name+" "+string(c.UID))
		}
		for _, c := range connections.Items {
			all = append(all, m.Name+" "+c.Name+" "+string(c.UID))
		}
	}
	return strings.Join(all, ", ")
}

// end deletes a request with the pod that runs by it.
func (w *world) end(t *testing.T, r *api.ResourceRequest, pod string) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: pod}}
	for _, o := range []kube.Object{p, r} {
		if err := w.rome.Objects.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, r.Name+" is over", func(ctx context.Context) error {
		known, err := w.rome.People(0).Reservation(ctx, r.Status.Reservation)
		if err == nil && known.Payload.State != api.Released {
			err = fmt.Errorf("it is %s", known.Payload.State)
		}
		return err
	})
}

// nothingLeft waits until neither cluster has an object of a network or of the peering, and neither node a rule of
// it. Interfaces of Geneve may be left: Liqo's fabric looks for those every half hour.
func (w *world) nothingLeft(t *testing.T) {
	t.Helper()
	for _, m := range w.Members {
		eventually(t, m.Name+" has nothing left of the network", func(ctx context.Context) error {
			for _, list := range []kube.ObjectList{
				&networkingv1beta1.ConfigurationList{}, &networkingv1beta1.ConnectionList{}, &networkingv1beta1.GatewayServerList{},
				&networkingv1beta1.GatewayClientList{}, &networkingv1beta1.PublicKeyList{}, &networkingv1beta1.GeneveTunnelList{},
				&authv1beta1.TenantList{}, &authv1beta1.IdentityList{},
			} {
				if err := m.Objects.List(ctx, list); err != nil {
					return err
				}
				if left, err := apimeta.ExtractList(list); err != nil || len(left) > 0 {
					return fmt.Errorf("%T: %d, %w", list, len(left), err)
				}
			}
			script := "nft list tables | grep -v -e cni -e services || true; /bin/ip rule | grep -e gw || true"
			out, err := w.in(ctx, "node-"+m.Name, "sh -c '%s'", script)
			if err == nil && strings.TrimSpace(out) != "" {
				err = fmt.Errorf("the node has %s", out)
			}
			return err
		})
	}
}
