package liqo

import (
	"context"
	"fmt"
	"sync"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// asked is a request, in a namespace of its own that it offloads.
type asked struct {
	*world
	t       *testing.T
	from    *federation.Member
	request *api.ResourceRequest
}

func (w *world) ask(t *testing.T, from, target *federation.Member,
	name string, amounts api.Resources, more ...func(*api.ResourceRequest)) *asked {
	t.Helper()
	makeNamespace(t, from, name)
	r := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name}, Spec: api.ResourceRequestSpec{
		Request: api.Request{Resources: amounts, Target: target.Name}, Offload: &api.Offload{Namespaces: []string{name}},
	}}
	for _, change := range more {
		change(r)
	}
	if err := from.Objects.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after a failure: the next test starts from nothing
		if from.Objects.Delete(context.Background(), r) == nil {
			w.nothingLeft(t, from, target)
		}
	})
	return &asked{w, t, from, r}
}

// madeBy has the test that made each namespace, by cluster and name.
var madeBy sync.Map

// makeNamespace makes a namespace. Namespaces outlive their test, and the next test in the same federation is
// not always the same one. So two tests that use one name fail in each run, and not only when they meet.
func makeNamespace(t *testing.T, at *federation.Member, name string) {
	t.Helper()
	if by, ok := madeBy.LoadOrStore(at.Name+"/"+name, t.Name()); ok && by != t.Name() {
		t.Fatalf("%s makes namespace %s of %s as well: use another name", by, name, at.Name)
	}
	if err := at.Objects.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
}

// becomes waits for a state.
func (a *asked) becomes(state api.State) {
	a.t.Helper()
	eventually(a.t, a.request.Name+" is "+string(state), func(ctx context.Context) error {
		if err := a.from.Objects.Get(ctx, kube.ObjectKeyFromObject(a.request), a.request); err != nil {
			return err
		}
		if a.request.Status.State != state {
			var peerings api.PeeringList
			_ = a.from.Objects.List(ctx, &peerings)
			said := ""
			for _, p := range peerings.Items {
				said += fmt.Sprintf("; %s is %s, %s: %s", p.Name, p.Status.State, p.Status.Step, p.Status.Message)
			}
			return fmt.Errorf("it is %s: %s%s", a.request.Status.State, a.request.Status.Message, said)
		}
		return nil
	})
}

// release deletes the request and waits until the reservation is over on both sides.
func (a *asked) release() {
	a.t.Helper()
	if err := a.from.Objects.Delete(context.Background(), a.request.DeepCopy()); err != nil {
		a.t.Fatal(err)
	}
	a.released()
}

// released waits until the reservation is over on both sides.
func (a *asked) released() {
	a.t.Helper()
	eventually(a.t, a.request.Name+" is Released", func(ctx context.Context) error {
		known, err := a.from.People(0).Reservation(ctx, a.request.Status.Reservation)
		if err == nil && known.Payload.State != api.Released {
			err = fmt.Errorf("it is %s", known.Payload.State)
		}
		return err
	})
}

func amounts(cpu, memory string) api.Resources {
	return api.Resources{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// run makes a Deployment whose pods may run anywhere but on the cluster's own nodes.
func (a *asked) run(replicas int32, cpu, memory string, more ...func(*corev1.PodSpec)) *appsv1.Deployment {
	a.t.Helper()
	return a.deploy("work", replicas, cpu, memory, more...)
}

// deploy is run for a Deployment of that name.
func (a *asked) deploy(name string, replicas int32, cpu, memory string,
	more ...func(*corev1.PodSpec)) *appsv1.Deployment {
	a.t.Helper()
	labels := map[string]string{"app": a.request.Name, "deployment": name}
	grace := int64(1)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.request.Namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: &grace,
					NodeSelector:                  map[string]string{"liqo.io/type": "virtual-node"},
					Containers: []corev1.Container{{
						Name: "work", Image: "localhost/work",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList(amounts(cpu, memory))},
					}},
				},
			},
		},
	}
	for _, change := range more {
		change(&d.Spec.Template.Spec)
	}
	if err := a.from.Objects.Create(a.t.Context(), d); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { // its pods would wait for any virtual node of the same provider, and take what is another test's
		_ = a.from.Objects.Delete(context.Background(), d, kube.PropagationPolicy(metav1.DeletePropagationBackground))
	})
	return d
}

// running waits until so many pods run, in the namespace and in its twin at the provider.
func (a *asked) running(provider *federation.Member, pods int) {
	a.t.Helper()
	for _, at := range []struct {
		where     *federation.Member
		namespace string
	}{{a.from, a.request.Namespace}, {provider, a.request.Namespace + "-" + a.from.Name}} {
		eventually(a.t, fmt.Sprintf("%d pods run in %s of %s", pods, at.namespace, at.where.Name),
			func(ctx context.Context) error {
				var list corev1.PodList
				if err := at.where.Objects.List(ctx, &list, kube.InNamespace(at.namespace)); err != nil {
					return err
				}
				n, why := 0, ""
				for _, p := range list.Items {
					if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
						n++
					} else {
						why += fmt.Sprintf(" %s is %s %s", p.Name, p.Status.Phase, p.Status.Message)
						for _, c := range p.Status.Conditions {
							if c.Status != corev1.ConditionTrue {
								why += " " + c.Message
							}
						}
					}
				}
				if n != pods {
					return fmt.Errorf("%d run;%s", n, why)
				}
				return nil
			})
	}
}

// nothingLeft waits until neither cluster holds an object of a peering between the two.
func (w *world) nothingLeft(t *testing.T, one, other *federation.Member) {
	t.Helper()
	for _, side := range []struct{ at, peer *federation.Member }{{one, other}, {other, one}} {
		eventually(t, fmt.Sprintf("%s has nothing of %s", side.at.Name, side.peer.Name), func(ctx context.Context) error {
			for _, list := range []kube.ObjectList{
				&authv1beta1.TenantList{}, &authv1beta1.IdentityList{}, &authv1beta1.ResourceSliceList{}, &offv1beta1.VirtualNodeList{},
				&offv1beta1.NamespaceMapList{}, &offv1beta1.QuotaList{}, &corev1.NamespaceList{}, &corev1.NodeList{},
			} {
				if err := side.at.Objects.List(ctx, list,
					kube.MatchingLabels{"liqo.io/remote-cluster-id": side.peer.Name}); err != nil {
					return err
				}
				if names := namesIn(list); len(names) > 0 {
					return fmt.Errorf("%T: %v", list, names)
				}
			}
			return noPeering(ctx, side.at, side.peer)
		})
	}
}

// noPeering says whether Bourse has no peering with a cluster.
func noPeering(ctx context.Context, at, peer *federation.Member) error {
	var peerings api.PeeringList
	if err := at.Objects.List(ctx, &peerings); err != nil {
		return err
	}
	for _, p := range peerings.Items {
		if p.Spec.Cluster == peer.Name {
			return fmt.Errorf("peering %s is %s: %s", p.Name, p.Status.State, p.Status.Message)
		}
	}
	return nil
}
