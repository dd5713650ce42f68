package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fakeNode is the annotation of the nodes that KWOK simulates.
const fakeNode = "kwok.x-k8s.io/node"

// Node is a node without a machine, except a Real one.
type Node struct {
	Name string
	// Labels besides kubernetes.io/hostname, /os (linux) and /arch (amd64), which they may override.
	Labels map[string]string
	Taints []corev1.Taint
	// Resources are its capacity and allocatable. Default: 8 CPU and 32Gi of memory; pods are 110
	// unless given.
	Resources corev1.ResourceList
	// Unschedulable makes it cordoned from the start.
	Unschedulable bool
	// NotReady makes it a node whose kubelet is silent, until SetReady.
	NotReady bool
	// Real gives it a machine of its own with the real containerd, kubelet and kube-proxy, 2 CPU and
	// 2 GiB. It has one image, Image, and no way to get others. Pods of different nodes do not reach
	// each other. Of the fields above, only Name and Labels count.
	Real bool
}

// AddNodes creates nodes. Where there are controllers it returns when these have made them schedulable.
func (c *Cluster) AddNodes(ctx context.Context, nodes ...Node) error {
	if len(nodes) == 0 {
		return nil
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, n := range nodes {
		group.Go(func() error {
			if n.Real {
				return c.startRealNode(groupCtx, n)
			}
			node := n.object()
			node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(c.kubelet)
			_, err := c.client.CoreV1().Nodes().Create(groupCtx, node, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil || c.light {
		return err
	}
	ready := map[string]bool{}
	for _, n := range nodes {
		if !n.NotReady {
			ready[n.Name] = true
		}
	}
	return c.await(ctx, "the nodes to become schedulable", func(ctx context.Context) error {
		list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		missing := maps.Clone(ready)
		for _, node := range list.Items {
			if !tainted(node, corev1.TaintNodeNotReady) {
				delete(missing, node.Name)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("these still have the taint %s: %v", corev1.TaintNodeNotReady,
				slices.Sorted(maps.Keys(missing)))
		}
		return nil
	})
}

// freeNodes takes the nodes from a KWOK that is dead: its successor would wait until the dead one's
// leases end.
func (c *Cluster) freeNodes(ctx context.Context) error {
	return c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).
		DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}

// SetReady makes a node's kubelet fall silent, or come back.
func (c *Cluster) SetReady(ctx context.Context, node string, ready bool) error {
	var player any // nil takes the annotation away, so that KWOK does not mend the condition
	if ready {
		player = "fake"
	}
	if err := c.patchNode(ctx, node,
		map[string]any{"metadata": map[string]any{"annotations": map[string]any{fakeNode: player}}}); err != nil {
		return err
	}
	status := map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{readyCondition(ready)}}}
	return c.patchNode(ctx, node, status, "status")
}

func (c *Cluster) patchNode(ctx context.Context, node string, change map[string]any, subresource ...string) error {
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType,
		patch, metav1.PatchOptions{}, subresource...)
	return err
}

// object is the node as it is created. Of all kinds only Node keeps the status that it is created with.
func (n Node) object() *corev1.Node {
	labels := map[string]string{corev1.LabelHostname: n.Name, corev1.LabelOSStable: "linux",
		corev1.LabelArchStable: "amd64"}
	maps.Copy(labels, n.Labels)
	resources := n.Resources.DeepCopy()
	if resources == nil {
		resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"),
			corev1.ResourceMemory: resource.MustParse("32Gi")}
	}
	if _, given := resources[corev1.ResourcePods]; !given {
		resources[corev1.ResourcePods] = resource.MustParse("110")
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: n.Taints, Unschedulable: n.Unschedulable},
		Status: corev1.NodeStatus{
			Capacity:    resources,
			Allocatable: resources,
			Conditions:  []corev1.NodeCondition{readyCondition(!n.NotReady)},
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: "127.0.0.1"},
				{Type: corev1.NodeHostName, Address: n.Name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				OperatingSystem: "linux", Architecture: labels[corev1.LabelArchStable], KubeletVersion: "kwok",
			},
		},
	}
	if !n.NotReady {
		node.Annotations = map[string]string{fakeNode: "fake"}
	}
	return node
}

func readyCondition(ready bool) corev1.NodeCondition {
	now := metav1.Now()
	c := corev1.NodeCondition{Type: corev1.NodeReady, LastHeartbeatTime: now, LastTransitionTime: now}
	if ready {
		c.Status, c.Reason = corev1.ConditionTrue, "KubeletReady"
	} else {
		c.Status, c.Reason = corev1.ConditionFalse, "KubeletNotReady"
	}
	return c
}

func tainted(node corev1.Node, key string) bool {
	for _, t := range node.Spec.Taints {
		if t.Key == key {
			return true
		}
	}
	return false
}
