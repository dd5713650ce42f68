package grant

import (
	"context"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// work is a ShadowPod of 400m with its pod, in some state.
type work struct {
	name, user string
	shadow     corev1.PodPhase
	pod        corev1.PodPhase // empty: there is none
	deleted    bool
	other      bool // the pod is that of an earlier ShadowPod
	init       []string
}

func (w work) objects() []client.Object {
	labels := map[string]string{"liqo.io/creator-user": w.user, "liqo.io/managed-by": "shadowpod"}
	requests := func(cpu string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: quantities("cpu", cpu)}}
	}
	spec := corev1.PodSpec{Containers: []corev1.Container{requests("300m"), requests("100m")}}
	for _, cpu := range w.init {
		spec.InitContainers = append(spec.InitContainers, requests(cpu))
	}
	s := &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "jobs", Name: w.name, Labels: labels,
		UID: types.UID(w.name)}, Spec: offv1beta1.ShadowPodSpec{Pod: spec}, Status: offv1beta1.ShadowPodStatus{Phase: w.shadow}}
	if w.deleted {
		now := metav1.Now()
		s.DeletionTimestamp, s.Finalizers = &now, []string{"a/b"}
	}
	all := []client.Object{s}
	if w.pod != "" {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "jobs", Name: w.name, Labels: labels}, Spec: spec,
			Status: corev1.PodStatus{Phase: w.pod}}
		owner := *s
		if w.other {
			owner.UID = "earlier"
		}
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&owner, offv1beta1.SchemeGroupVersion.WithKind("ShadowPod"))}
		all = append(all, p)
	}
	return all
}

func schemes() *runtime.Scheme {
	scheme := runtime.NewScheme()
	_, _, _ = corev1.AddToScheme(scheme), authv1beta1.AddToScheme(scheme), offv1beta1.AddToScheme(scheme)
	return scheme
}

// A ShadowPod holds Liqo's quota as Liqo counts it, until its deletion begins. It counts as ended if nothing of it
// can run any more.
func TestEnded(t *testing.T) {
	const ran, failed, runs = corev1.PodSucceeded, corev1.PodFailed, corev1.PodRunning
	for name, c := range map[string]struct {
		work
		want string
	}{
		"it succeeded":                           {work{shadow: ran, pod: ran}, "400m"},
		"it failed":                              {work{shadow: failed, pod: failed}, "400m"},
		"Liqo does not show it yet":              {work{shadow: runs, pod: ran}, "400m"},
		"its pod is gone":                        {work{shadow: ran}, "400m"},
		"it runs":                                {work{shadow: runs, pod: runs}, "0"},
		"it runs, though Liqo shows otherwise":   {work{shadow: ran, pod: runs}, "0"},
		"Liqo makes its pod again":               {work{shadow: runs}, "0"},
		"the pod of an earlier one has ended":    {work{shadow: corev1.PodPending, pod: ran, other: true}, "0"},
		"it is being deleted":                    {work{shadow: ran, pod: ran, deleted: true}, "0"},
		"another user's":                         {work{user: "other", shadow: ran, pod: ran}, "0"},
		"a large init container":                 {work{shadow: ran, pod: ran, init: []string{"1", "2"}}, "2"},
		"init containers, by Liqo's rounded up":  {work{shadow: ran, pod: ran, init: []string{"100m", "900m"}}, "400m"},
		"an init container beside small ones":    {work{shadow: ran, pod: ran, init: []string{"600m"}}, "600m"},
		"an init container that containers pass": {work{shadow: ran, pod: ran, init: []string{"200m"}}, "400m"},
	} {
		c.work.name = "j1"
		if c.user == "" {
			c.user = "u"
		}
		k := fake.NewClientBuilder().WithScheme(schemes()).WithObjects(c.objects()...).Build()
		got, err := Ended(t.Context(), k, "u")
		if cpu := got[corev1.ResourceCPU]; err != nil || cpu.String() != c.want {
			t.Errorf("%s: %v, %v, want %s", name, got, err, c.want)
		}
	}
}

// lyonAsks returns the slice by which consumer lyon asks for CPUs, with its Tenant and the namespace of both.
func lyonAsks(name, cpu string) (*corev1.Namespace, *authv1beta1.ResourceSlice, *authv1beta1.Tenant) {
	namespace := liqo.NewTenantNamespace("lyon")
	slice := &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: name, Labels: map[string]string{"liqo.io/replicated": "true"}},
		Spec:       authv1beta1.ResourceSliceSpec{Class: liqo.Class, Resources: quantities("cpu", cpu)},
		Status: authv1beta1.ResourceSliceStatus{Conditions: []authv1beta1.ResourceSliceCondition{{
			Type: authv1beta1.ResourceSliceConditionTypeAuthentication, Status: authv1beta1.ResourceSliceConditionAccepted}}},
	}
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "lyon"},
		Spec: authv1beta1.TenantSpec{ClusterID: "lyon"}}
	return namespace, slice, tenant
}

// A grant covers what pods that have ended take of Liqo's quota, so that as much runs as is reserved. It does so only
// where the virtual node does not grow with it, and not once nothing is reserved. It falls again with these pods.
func TestAGrantCoversWhatEnded(t *testing.T) {
	namespace, slice, tenant := lyonAsks("general", "1")
	job := work{name: "j1", user: User("general", "lyon"), shadow: corev1.PodSucceeded, pod: corev1.PodSucceeded}.objects()
	k := fake.NewClientBuilder().WithScheme(schemes()).WithObjects(namespace, slice, tenant).WithStatusSubresource(slice).
		WithObjects(job...).Build()
	owed, suspended := Owed{Pool: api.GeneralPool}, ""
	g := &Granter{Client: k, Reader: k, Cluster: "milan", Properties: func() api.Properties { return api.Properties{} },
		Pool:      func(string) *api.PoolPolicy { return nil },
		Owed:      func(context.Context, string, string) (Owed, bool, error) { return owed, true, nil },
		Suspended: func(context.Context, string) (string, error) { return suspended, nil }}
	for _, step := range []struct {
		does      string
		keeps     bool
		reserved  string
		ended     bool
		suspended string
		cpu       string
		again     time.Duration
	}{
		{"the virtual node grows with the grant", false, "1", true, "", "1", 0},
		{"the consumer keeps its size", true, "1", true, "", "1400m", coverEvery},
		{"it is suspended, and the reservation shrinks", true, "500m", true, "no", "900m", coverEvery},
		{"it is suspended", true, "1", true, "no", "900m", coverEvery},
		{"its pods are deleted", true, "1", false, "no", "900m", 0},
		{"nothing has ended", true, "1", false, "", "1", 0},
		{"nothing is reserved", true, "", true, "", "0", 0},
	} {
		owed.Resources, owed.Reservations, suspended = nil, nil, step.suspended
		if step.reserved != "" {
			owed.Resources, owed.Reservations = quantities("cpu", step.reserved), []string{"r-1"}
		}
		var now authv1beta1.ResourceSlice
		if err := k.Get(t.Context(), client.ObjectKeyFromObject(slice), &now); err != nil {
			t.Fatal(err)
		}
		if now.Spec.Resources = quantities("cpu", "1"); step.keeps {
			now.Spec.Resources = Wish(api.Resources(now.Spec.Resources))
		}
		if k.Update(t.Context(), &now) != nil {
			t.Fatal("the slice cannot be written")
		}
		for _, o := range job {
			if err := k.Delete(t.Context(), o); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if o.SetResourceVersion(""); step.ended {
				if err := k.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
		}
		again, err := g.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(slice)})
		if err == nil {
			err = k.Get(t.Context(), client.ObjectKeyFromObject(slice), &now)
		}
		if cpu := now.Status.Resources.Cpu().String(); err != nil || cpu != step.cpu || again.RequeueAfter != step.again {
			t.Errorf("%s: %s CPUs, again in %s, %v; want %s", step.does, cpu, again.RequeueAfter, err, step.cpu)
		}
	}
}

// Once an admin resumes a consumer, its slice stays suspended until its Tenant follows: that is no hold of its own. A
// Tenant that somebody else cordoned is one.
func TestAConsumerThatIsResumed(t *testing.T) {
	namespace, slice, tenant := lyonAsks("general", "1")
	k := fake.NewClientBuilder().WithScheme(schemes()).WithObjects(namespace, slice, tenant).WithStatusSubresource(slice).Build()
	suspended := ""
	g := &Granter{Client: k, Reader: k, Cluster: "milan", Properties: func() api.Properties { return api.Properties{} },
		Pool: func(string) *api.PoolPolicy { return nil },
		Owed: func(context.Context, string, string) (Owed, bool, error) {
			return Owed{Pool: api.GeneralPool, Resources: quantities("cpu", "1"), Reservations: []string{"r-1"}}, true, nil
		},
		Suspended: func(context.Context, string) (string, error) { return suspended, nil }}
	for _, step := range []struct {
		suspended, mark string
		condition       authv1beta1.TenantCondition
		want            string
	}{
		{"bills", liqo.Suspended, authv1beta1.TenantConditionCordoned, ReasonSuspended},
		{"", liqo.Suspended, authv1beta1.TenantConditionCordoned, ReasonSuspended},
		{"", "", authv1beta1.TenantConditionActive, "Reserved"},
		{"", "", authv1beta1.TenantConditionCordoned, ReasonCordoned},
	} {
		suspended = step.suspended
		tenant.Spec.TenantCondition, tenant.Annotations = step.condition, map[string]string{liqo.Restricted: step.mark}
		if err := k.Update(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(slice)}); err != nil {
			t.Fatal(err)
		}
		var now authv1beta1.ResourceSlice
		if err := k.Get(t.Context(), client.ObjectKeyFromObject(slice), &now); err != nil {
			t.Fatal(err)
		}
		reason := ""
		for _, c := range now.Status.Conditions {
			if c.Type == authv1beta1.ResourceSliceConditionTypeResources {
				reason = c.Reason
			}
		}
		if reason != step.want {
			t.Errorf("%+v: the slice is %q", step, reason)
		}
	}
}
