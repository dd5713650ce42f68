package borrowing

import (
	"slices"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/raced"
)

const noAddresses = "--disable-ip-reflection=true"

// Without a network with the provider, pods have no addresses here, for requests as for VirtualNodePools: Services
// would send requests to addresses that lead nowhere, or to other pods. A network that comes or goes later counts.
func TestAddressesNeedANetwork(t *testing.T) {
	raced.Skip(t)
	for what, reserve := range map[string]func(*tenants){
		"a request": func(w *tenants) { w.borrows("team", &api.Offload{}) },
		"a pool":    func(w *tenants) { w.burstsFrom("team") },
	} {
		t.Run(what, func(t *testing.T) {
			w := newTenants(t)
			reserve(w)
			w.serve()
			nodes, _, err := w.namespaces.Nodes(t.Context(), "milan")
			if err != nil || len(nodes) != 1 {
				t.Fatalf("the virtual nodes are %v, %v", nodes, err)
			}
			var v offv1beta1.VirtualNode
			w.get("liqo-tenant-milan", nodes[0], &v)
			var options offv1beta1.VkOptionsTemplate
			w.get("liqo", v.Spec.VkOptionsTemplateRef.Name, &options)
			if !slices.Contains(options.Spec.ExtraArgs, noAddresses) {
				t.Errorf("it is made with %v", options.Spec.ExtraArgs)
			}
			w.startKubelet(&v, options.Spec.ExtraArgs)
			arguments := func(want bool) {
				t.Helper()
				w.serve()
				w.get("liqo-tenant-milan", nodes[0], &v)
				args := v.Spec.Template.Spec.Template.Spec.Containers[0].Args
				if slices.Contains(args, noAddresses) != want || !slices.Contains(args, "--nodename=x") {
					t.Errorf("it runs with %v", args)
				}
			}
			arguments(true)
			network := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan",
				Name: "milan", Labels: map[string]string{"liqo.io/remote-cluster-id": "milan"}}}
			w.create(network)
			arguments(true)
			network.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{
				Pod: []networkingv1beta1.CIDR{"10.71.0.0/16"}}}
			w.update(network)
			arguments(false)
			if err := w.Delete(t.Context(), network); err != nil {
				t.Fatal(err)
			}
			arguments(true)
		})
	}
}

// A Liqo after 1.2 runs a virtual kubelet by its options at any time, and removes the copy of them that 1.2 wrote into the
// virtual node. So the virtual node gets other options when a network comes or goes, and when Liqo was upgraded, whose
// default options then have another image. What is copied to the provider stays.
func TestAVirtualKubeletThatFollowsItsOptions(t *testing.T) {
	raced.Skip(t)
	w := newTenants(t)
	w.borrows("team", &api.Offload{Reflect: &api.Reflect{ConfigMaps: api.ReflectNone}})
	w.serve()
	nodes, _, err := w.namespaces.Nodes(t.Context(), "milan")
	if err != nil || len(nodes) != 1 {
		t.Fatalf("the virtual nodes are %v, %v", nodes, err)
	}
	var v offv1beta1.VirtualNode
	w.get("liqo-tenant-milan", nodes[0], &v)
	first := v.Spec.VkOptionsTemplateRef.Name
	runsBy := func(what, image string, hides bool) (name string) {
		t.Helper()
		w.serve()
		w.get("liqo-tenant-milan", nodes[0], &v)
		name = v.Spec.VkOptionsTemplateRef.Name
		var o offv1beta1.VkOptionsTemplate
		w.get("liqo", name, &o)
		if o.Spec.ContainerImage != image || slices.Contains(o.Spec.ExtraArgs, noAddresses) != hides ||
			o.Spec.ReflectorsConfig["configmap"].NumWorkers != 0 || v.Spec.Template != nil {
			t.Errorf("%s: it runs by %+v", what, o.Spec)
		}
		return name
	}
	var standard offv1beta1.VkOptionsTemplate
	w.get("liqo", "virtual-kubelet-default", &standard)
	if name := runsBy("as it was made", standard.Spec.ContainerImage, true); name != first {
		t.Errorf("it has the options %s, want those of before: %s", name, first)
	}
	const image = "ghcr.io/liqotech/virtual-kubelet:v1.3.0"
	standard.Spec.ContainerImage = image
	if err := w.Update(t.Context(), &standard); err != nil {
		t.Fatal(err)
	}
	runsBy("after an upgrade", image, true)
	network := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan",
		Name: "milan", Labels: map[string]string{"liqo.io/remote-cluster-id": "milan"}}}
	w.create(network)
	network.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{
		Pod: []networkingv1beta1.CIDR{"10.71.0.0/16"}}}
	w.update(network)
	runsBy("with a network", image, false)
}

// startKubelet does what Liqo's webhook does when a virtual node is made.
func (w *tenants) startKubelet(v *offv1beta1.VirtualNode, extra []string) {
	w.Helper()
	before := v.DeepCopy()
	v.Spec.Template = &offv1beta1.DeploymentTemplate{Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "kubelet",
			Args: append([]string{"--nodename=x"}, extra...)}}}}}}
	if err := w.Patch(w.Context(), v, client.MergeFrom(before)); err != nil {
		w.Fatal(err)
	}
}
