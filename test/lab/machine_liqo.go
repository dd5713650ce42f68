package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// hostFromMachine is this machine's loopback address, as the machine inside reaches it.
const hostFromMachine = "10.0.2.2"

// callers are the daemons of Liqo that call other clusters' API servers, besides virtual kubelets.
var callers = []Daemon{LiqoControllerManager, LiqoCRDReplicator}

// MoveLiqo runs those parts of Liqo that call other clusters as pods of the cluster's node, with their own
// rights, and no longer as processes of this machine. They then reach nothing but their own API server and what
// the network carries. Virtual kubelets that exist already stay where they are.
func (c *Cluster) MoveLiqo(ctx context.Context) error {
	for _, d := range callers {
		c.Kill(d)
		patch := []byte(`{"spec":{"replicas":1}}`)
		if _, err := c.client.AppsV1().Deployments(LiqoNamespace).Patch(ctx, string(d), types.MergePatchType,
			patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	client, err := dynamic.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	templates := schema.GroupVersion{Group: "offloading.liqo.io", Version: "v1beta1"}.WithResource("vkoptionstemplates")
	_, err = client.Resource(templates).Namespace(LiqoNamespace).Patch(ctx, "virtual-kubelet-default",
		types.MergePatchType, []byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{})
	return err
}

// liqoDeployment is what Liqo's chart makes of the flags that a daemon here is started with. It has no pods:
// the daemon is a process of this machine.
func (c *Cluster) liqoDeployment(d Daemon) ([]byte, error) {
	name, replicas := strings.TrimPrefix(string(d), "liqo-"), int32(0)
	labels := map[string]string{"app.kubernetes.io/name": name,
		"app.kubernetes.io/component": name, "app.kubernetes.io/version": LiqoVersion}
	args := slices.Clone(c.liqoFlags(d))
	for i := range args {
		args[i] = strings.Replace(args[i], "--ipam-server=127.0.0.1", "--ipam-server="+hostFromMachine, 1)
	}
	return json.Marshal(&appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: LiqoNamespace, Name: string(d), Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				ServiceAccountName: string(d),
				Containers: []corev1.Container{{
					Name: name, Image: fmt.Sprintf("localhost/liqo/%s:%s", d, LiqoVersion), Args: args,
				}},
			}},
		},
	})
}
