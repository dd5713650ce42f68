package liqo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// closed is an address of an API server at which nothing answers.
const closed = "https://127.0.0.1:1"

// A provider whose API server is reached through the network only: nobody dials it, the network
// comes first, and then all that Liqo does there goes through Liqo's own proxy. At its end the
// network goes last.
//
// The proxy is the real one. The test stands for the tunnel: it plays Liqo's networking, and maps
// the external addresses of the provider to loopback ones, at which that proxy listens. That Liqo's
// gateways carry it needs real nodes.
func TestAnAPIServerBehindTheNetwork(t *testing.T) {
	w := start(t)
	reserves(t, w.rome, "10.60.0.0/16", "10.70.0.0/16")
	reserves(t, w.milan, "10.61.0.0/16", "10.71.0.0/16")
	w.hide(t, w.milan)
	w.findsNoWay(t, w.milan, true)
	w.proxied(t, w.milan, "10.71.0.3")
	w.findsNoWay(t, w.milan, false)

	rome := &dataPlane{w, t, w.rome, w.milan, "10.81.0.0/16", "127.71.0.0/16"}
	milan := &dataPlane{w, t, w.milan, w.rome, "10.80.0.0/16", ""}
	without := w.ask(t, w.rome, w.milan, "directly", amounts("1", "1Gi"))
	without.becomes(api.Rejected)
	if m := without.request.Status.Message; !strings.Contains(m, "through a network only") {
		t.Errorf("who asks for no network is told %q", m)
	}

	a := w.askConnected(t, w.rome, w.milan, "in-band")
	rome.maps("10.61.0.0/16")
	milan.maps("10.60.0.0/16")
	milan.serves(corev1.ServiceTypeNodePort, "192.0.2.1")
	w.restart(t, w.rome)
	rome.dials("192.0.2.1")
	rome.trusts()
	milan.trusts()
	a.becomes(api.Reserved)
	a.networkIs(metav1.ConditionFalse, "Tunnel")
	w.waitsForTheNetwork(t)

	rome.connects(networkingv1beta1.ConnectionTypeClient)
	milan.connects(networkingv1beta1.ConnectionTypeServer)
	a.becomes(api.Active)
	a.networkIs(metav1.ConditionTrue, "Connected")
	var identity authv1beta1.Identity
	if err := w.rome.Objects.Get(t.Context(), kube.ObjectKey{Namespace: "liqo-tenant-milan", Name: "controlplane-milan"},
		&identity); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("http://127.71.0.3:%d", w.milan.Cluster.ProxyPort())
	if p := identity.Spec.AuthParams; p.APIServer != closed || p.ProxyURL == nil || *p.ProxyURL != want {
		t.Errorf("rome's Liqo reaches milan at %s through %v, want %s through %s", p.APIServer, p.ProxyURL, closed, want)
	}
	a.run(2, "100m", "64Mi")
	a.running(w.milan, 2)
	log, err := os.ReadFile(filepath.Join(w.milan.Cluster.Dir(), string(lab.LiqoProxy)+".log"))
	if err != nil || !bytes.Contains(log, []byte("handling CONNECT to 127.0.0.1:1")) {
		t.Errorf("the proxy says %q, %v", log, err)
	}

	second := w.askConnected(t, w.rome, w.milan, "in-band-too")
	second.becomes(api.Active)
	w.restart(t, w.milan)
	a.release()
	second.run(1, "100m", "64Mi")
	second.running(w.milan, 1)
	atRome := rome.watches(&networkingv1beta1.GatewayClientList{}, &authv1beta1.IdentityList{}, identity.Name)
	atMilan := milan.watches(&networkingv1beta1.GatewayServerList{}, &authv1beta1.TenantList{}, "rome")
	second.release()
	atRome()
	atMilan()
	w.noNetworkLeft(t, w.rome, w.milan)
	w.nothingLeft(t, w.rome, w.milan)
}

// watches demands, when it is asked after the end of a peering, that the gateway went last: after
// what needed the tunnel.
func (d *dataPlane) watches(gateways, needs kube.ObjectList, name string) func() {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	d.t.Cleanup(cancel)
	began := func(list kube.ObjectList, which ...kube.ListOption) watch.Interface {
		events, err := d.at.Objects.Watch(ctx, list, append(which, kube.InNamespace(d.name().Namespace))...)
		if err != nil {
			d.t.Fatal(err)
		}
		return events
	}
	gone := func(events watch.Interface, mark bool) (last int) { // its version when it was gone, or was marked to go
		defer events.Stop()
		for e := range events.ResultChan() {
			o := e.Object.(kube.Object)
			if e.Type != watch.Deleted && (!mark || o.GetDeletionTimestamp() == nil) {
				continue
			}
			last, err := strconv.Atoi(o.GetResourceVersion())
			if err != nil {
				d.t.Fatal(err)
			}
			return last
		}
		d.t.Fatalf("%s keeps it", d.at.Name)
		return 0
	}
	gateway, other := began(gateways), began(needs, kube.MatchingFields{"metadata.name": name})
	return func() {
		d.t.Helper()
		if g, o := gone(gateway, true), gone(other, false); g < o {
			d.t.Errorf("%s takes down its gateway at version %d, and what needs the tunnel (%T) goes at %d",
				d.at.Name, g, needs, o)
		}
	}
}

// waitsForTheNetwork demands that rome says what it waits for, and that milan has no Tenant of it meanwhile.
func (w *world) waitsForTheNetwork(t *testing.T) {
	t.Helper()
	eventually(t, "rome waits for the network", func(ctx context.Context) error {
		var p api.Peering
		err := w.rome.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace,
			Name: api.PeeringName("milan", api.RoleProvider)}, &p)
		if err == nil && (p.Status.State != api.PeeringOpening || p.Status.Step != "Network" ||
			!strings.Contains(p.Status.Message, "Tunnel: ")) {
			err = fmt.Errorf("it is %+v", p.Status)
		}
		return err
	})
	var tenants authv1beta1.TenantList
	if err := w.milan.Objects.List(t.Context(), &tenants); err != nil || len(tenants.Items) > 0 {
		t.Errorf("before the tunnel stands milan has %v, %v", namesIn(&tenants), err)
	}
}

// hide takes a cluster's API server out of the reach of others, all but through the network, until
// the test ends.
func (w *world) hide(t *testing.T, m *federation.Member) {
	t.Helper()
	was := m.Flags[lab.LiqoControllerManager]
	advertise := func(ctx context.Context, at string, access api.APIServerAccess) error {
		flag := "--api-server-address-override=" + at
		m.Flags[lab.LiqoControllerManager] = append(slices.Clone(was), flag)
		if err := m.Cluster.Restart(ctx, lab.LiqoControllerManager); err != nil {
			return err
		}
		var d appsv1.Deployment
		if err := m.Objects.Get(ctx, kube.ObjectKey{Namespace: lab.LiqoNamespace, Name: string(lab.LiqoControllerManager)},
			&d); err != nil {
			return err
		}
		args := d.Spec.Template.Spec.Containers[0].Args
		i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--api-server-address-override=") })
		args[i] = flag
		if err := m.Objects.Update(ctx, &d); err != nil {
			return err
		}
		var p api.SharingPolicy
		if err := m.Objects.Get(ctx, kube.ObjectKey{Name: "default"}, &p); err != nil {
			return err
		}
		before := p.DeepCopy()
		p.Spec.APIServerAccess = access
		if err := m.Objects.Patch(ctx, &p, kube.MergeFrom(before)); err != nil { // the agent writes its status
			return err
		}
		w.restart(t, m)
		return m.AwaitConnected(ctx)
	}
	says := func(at string, closed bool) {
		t.Helper()
		eventually(t, m.Name+"'s card says so", func(ctx context.Context) error {
			c, err := w.rome.People(0).Cluster(ctx, m.Name)
			if p := c.Payload.Properties; err == nil &&
				(p.APIServer != at || (p.APIServerAccess == api.APIServerNetwork) != closed) {
				err = fmt.Errorf("it says %+v", p)
			}
			return err
		})
	}
	if err := advertise(t.Context(), closed, api.APIServerNetwork); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := advertise(context.Background(), m.Cluster.Config().Host, api.APIServerDirect); err != nil {
			t.Error(err)
			return
		}
		says(m.Cluster.Config().Host, false) // the next test must not read the old card
	})
	says(closed, true)
}

// findsNoWay demands that the doctor says, or does not say, that nobody can reach the API server.
func (w *world) findsNoWay(t *testing.T, m *federation.Member, want bool) {
	t.Helper()
	d, err := m.People(0).Diagnose(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if found := slices.ContainsFunc(d.Problems,
		func(p api.Problem) bool { return p.Code == "ApiServerProxyMissing" }); found != want {
		t.Errorf("the doctor of %s says %+v", m.Name, d.Problems)
	}
}

// proxied starts Liqo's proxy to a cluster's API server, with the objects that give it an address
// in Liqo's networks.
func (w *world) proxied(t *testing.T, m *federation.Member, address string) {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: lab.LiqoNamespace,
			Name: "liqo-proxy", Labels: map[string]string{"app.kubernetes.io/name": "proxy"}},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: int32(m.Cluster.ProxyPort())}}},
	}
	if err := m.Objects.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	ip := &ipamv1alpha1.IP{
		ObjectMeta: metav1.ObjectMeta{Namespace: lab.LiqoNamespace,
			Name: "api-server-proxy", Labels: map[string]string{"ipam.liqo.io/ip-type": "api-server-proxy"}},
		Spec: ipamv1alpha1.IPSpec{IP: networkingv1beta1.IP(service.Spec.ClusterIP)},
	}
	if err := m.Objects.Create(t.Context(), ip); err != nil {
		t.Fatal(err)
	}
	before := ip.DeepCopy()
	ip.Status.IP = networkingv1beta1.IP(address)
	if err := m.Objects.Status().Patch(t.Context(), ip, kube.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := m.Cluster.Start(t.Context(), lab.LiqoProxy); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Cluster.Kill(lab.LiqoProxy)
		_ = m.Objects.Delete(context.Background(), ip)
		_ = m.Objects.Delete(context.Background(), service)
	})
}
