package liqo

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// lendsDisks lets a cluster lend volumes of the class "disk" until the test ends. The other cluster gets the
// class "liqo".
func (w *world) lendsDisks(t *testing.T, from, to *federation.Member) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	must(t, from.Cluster.LendDisks(ctx))
	must(t, to.Cluster.LiqoDisks(ctx))
	set := func(ctx context.Context, classes ...string) {
		var policy api.SharingPolicy
		if err := from.Objects.Get(ctx, kube.ObjectKey{Name: "default"}, &policy); err != nil {
			t.Fatal(err)
		}
		before := policy.DeepCopy()
		policy.Spec.Pools[0].StorageClasses = classes
		// The agent writes the policy's status meanwhile: an update would conflict.
		if err := from.Objects.Patch(ctx, &policy, kube.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	set(t.Context(), lab.DiskClass)
	t.Cleanup(func() { set(context.Background()) })
}

// claim makes a PersistentVolumeClaim of Liqo's class in the namespace of a request.
func (a *asked) claim(name string) *corev1.PersistentVolumeClaim {
	a.t.Helper()
	class := lab.LiqoClass
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.request.Namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if err := a.from.Objects.Create(a.t.Context(), c); err != nil {
		a.t.Fatal(err)
	}
	return c
}

// mounts lets the pods of a Deployment use a claim.
func mounts(claim string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Volumes = append(s.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
}

// isBound waits until a claim and its twin at the provider have a volume, of the classes of the
// two clusters.
func (a *asked) isBound(claim *corev1.PersistentVolumeClaim, provider *federation.Member) {
	a.t.Helper()
	twin := kube.ObjectKey{Namespace: claim.Namespace + "-" + a.from.Name, Name: claim.Name}
	for at, want := range map[*federation.Member]struct {
		key   kube.ObjectKey
		class string
	}{a.from: {kube.ObjectKeyFromObject(claim), lab.LiqoClass}, provider: {twin, lab.DiskClass}} {
		eventually(a.t, "claim "+claim.Name+" has its volume at "+at.Name, func(ctx context.Context) error {
			var c corev1.PersistentVolumeClaim
			err := at.Objects.Get(ctx, want.key, &c)
			if err == nil && (c.Status.Phase != corev1.ClaimBound || c.Spec.VolumeName == "" ||
				*c.Spec.StorageClassName != want.class) {
				err = fmt.Errorf("it is %s, of class %s", c.Status.Phase, *c.Spec.StorageClassName)
			}
			return err
		})
	}
}

// noVolume returns an error while a cluster has a volume of a claim in a namespace.
func noVolume(ctx context.Context, at *federation.Member, namespace string) error {
	var list corev1.PersistentVolumeList
	if err := at.Objects.List(ctx, &list); err != nil {
		return err
	}
	for _, v := range list.Items {
		if c := v.Spec.ClaimRef; c != nil && c.Namespace == namespace {
			return fmt.Errorf("%s has volume %s of claim %s/%s", at.Name, v.Name, c.Namespace, c.Name)
		}
	}
	return nil
}
