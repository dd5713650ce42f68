package liqo

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// disks provisions volumes as a real provisioner does, except that nothing mounts them: pods are simulated.
type disks struct{}

const disksName = "lab.bourse.dev/disks"

// Provision returns a volume on the node of the claim's first pod.
func (disks) Provision(_ context.Context, o controller.ProvisionOptions) (*corev1.PersistentVolume,
	controller.ProvisioningState, error) {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *o.StorageClass.ReclaimPolicy, AccessModes: o.PVC.Spec.AccessModes,
			Capacity: corev1.ResourceList{corev1.ResourceStorage: o.PVC.Spec.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/disks/" +
				o.PVName}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{o.SelectedNodeName}},
				},
			}}}},
		},
	}, controller.ProvisioningFinished, nil
}

// Delete has nothing to delete but the PersistentVolume, which the library deletes.
func (disks) Delete(context.Context, *corev1.PersistentVolume) error { return nil }

// lendsDisks lets a cluster lend volumes of the class "disk" until the test ends: a real
// provisioner makes them, once their first pod has a node. The other cluster gets the class "liqo"
// of Liqo's storage fabric.
func (w *world) lendsDisks(t *testing.T, from, to *federation.Member) {
	t.Helper()
	for at, class := range map[*federation.Member]*storagev1.StorageClass{
		from: {ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Provisioner: disksName},
		to:   {ObjectMeta: metav1.ObjectMeta{Name: "liqo"}, Provisioner: "liqo.io/storage"},
	} {
		late := storagev1.VolumeBindingWaitForFirstConsumer
		class.VolumeBindingMode = &late
		if err := at.Objects.Create(t.Context(), class); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	k, err := kubernetes.NewForConfig(from.Cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	go controller.NewProvisionController(ctx, k, disksName, disks{}, controller.LeaderElection(false)).Run(ctx)
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
	set(t.Context(), "disk")
	t.Cleanup(func() { set(context.Background()) })
}

// claim makes a PersistentVolumeClaim of Liqo's class in the namespace of a request.
func (a *asked) claim(name string) *corev1.PersistentVolumeClaim {
	a.t.Helper()
	class := "liqo"
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
	}{a.from: {kube.ObjectKeyFromObject(claim), "liqo"}, provider: {twin, "disk"}} {
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
