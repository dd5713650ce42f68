package lab

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// DiskClass is the StorageClass of the disks that LendDisks provisions. LiqoClass is the one of Liqo's storage
// fabric, which LiqoDisks makes: a claim of it gets its volume at the provider.
const (
	DiskClass = "disk"
	LiqoClass = "liqo"
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

// LendDisks gives the cluster the class DiskClass, and provisions its volumes until ctx ends: each one when its
// first pod has a node.
func (c *Cluster) LendDisks(ctx context.Context) error {
	if err := c.storageClass(ctx, DiskClass, disksName); err != nil {
		return err
	}
	p := controller.NewProvisionController(ctx, c.client, disksName, disks{}, controller.LeaderElection(false))
	go p.Run(ctx)
	return nil
}

// LiqoDisks gives the cluster the class LiqoClass.
func (c *Cluster) LiqoDisks(ctx context.Context) error {
	return c.storageClass(ctx, LiqoClass, "liqo.io/storage")
}

// storageClass makes a class, unless the cluster has it.
func (c *Cluster) storageClass(ctx context.Context, name, provisioner string) error {
	late := storagev1.VolumeBindingWaitForFirstConsumer
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &late}
	_, err := c.client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
