package offload

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/api"
)

// A provider counts the pods of DaemonSets in namespaces that are offloaded, and never gets the others. So a virtual
// node becomes no smaller than what its provider counts, and what it never gets keeps no size.
func TestFitsCountsDaemonSetsOfOffloadedNamespaces(t *testing.T) {
	pod := func(namespace, name, cpu, owner string, phase corev1.PodPhase) client.Object {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: owner, Name: owner, UID: "1", Controller: ptr.To(true)}}},
			Spec: corev1.PodSpec{NodeName: "milan-general", Containers: []corev1.Container{{Name: "c",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}}},
			Status: corev1.PodStatus{Phase: phase},
		}
	}
	web, logs := pod("team", "web", "4", "ReplicaSet", corev1.PodRunning), pod("team", "logs", "6", "DaemonSet", corev1.PodRunning)
	ended := pod("team", "ended", "50", "DaemonSet", corev1.PodSucceeded)
	home, other := pod("home", "logs", "70", "DaemonSet", corev1.PodRunning), pod("other", "web", "3", "ReplicaSet", corev1.PodRunning)
	for _, c := range []struct {
		what  string
		pods  []client.Object
		alone bool
		needs int64
	}{
		{"one of a namespace that is offloaded", []client.Object{web, logs, ended}, false, 10},
		{"one of a namespace that is offloaded, alone", []client.Object{web, logs, ended}, true, 10},
		{"one of a namespace that is not", []client.Object{web, logs, home}, false, 10},
		{"a pod of another namespace", []client.Object{web, logs, home, other}, false, 13},
		{"a pod of another namespace that does not count", []client.Object{web, logs, home, other}, true, 10},
	} {
		e := &Evictor{Reader: fake.NewClientBuilder().WithObjects(c.pods...).WithIndex(&corev1.Pod{}, "spec.nodeName",
			func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()}
		for _, size := range []int64{c.needs - 1, c.needs} {
			fits, err := e.Fits(t.Context(), "milan-general", api.Resources{"cpu": *resource.NewQuantity(size, resource.DecimalSI)},
				[]string{"team"}, c.alone)
			if err != nil || fits != (size == c.needs) {
				t.Errorf("%s: into %d CPUs of %d: %t, %v", c.what, size, c.needs, fits, err)
			}
		}
	}
}
