package offload

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Complaints name the pods of a namespace that wait, and that no brokered provider would take, each with the first reason:
// Kubernetes only shows them as Pending. Reader may answer from a cache of the API server.
func Complaints(ctx context.Context, r client.Reader, namespace string) ([]string, error) {
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.InNamespace(namespace), client.Limit(500), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}); err != nil {
		return nil, err
	}
	var out []string
	for _, p := range pods.Items {
		if p.Status.Phase != corev1.PodPending || p.DeletionTimestamp != nil {
			continue
		}
		why := refused(&p.Spec)
		if p.Spec.NodeName == "" && !slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == consts.VirtualNodeTolerationKey }) {
			why = "was made before its namespace was offloaded, and cannot run on a virtual node: delete it to have it made anew"
		}
		if why != "" {
			out = append(out, fmt.Sprintf("pod %s/%s %s", p.Namespace, p.Name, why))
		}
	}
	slices.Sort(out)
	return out, nil
}

// refused says why the admission policies of a provider (config/liqo/policies.yaml) would refuse a pod; empty if they
// would not. Liqo itself takes the node's name, the priority and the ServiceAccount off what it sends.
func refused(s *corev1.PodSpec) string {
	switch {
	case slices.ContainsFunc(s.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }):
		return "mounts a folder of the node (hostPath)"
	case s.HostNetwork, s.HostPID, s.HostIPC:
		return "shares the namespaces of the node (hostNetwork, hostPID, hostIPC)"
	}
	if s.Resources != nil || slices.ContainsFunc(s.InitContainers, func(c corev1.Container) bool { return c.RestartPolicy != nil }) {
		return "has a sidecar, or resources of its own, which Liqo does not count"
	}
	for _, c := range slices.Concat(s.Containers, s.InitContainers) {
		var wants []string
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if amount := c.Resources.Requests[name]; amount.Sign() <= 0 {
				wants = append(wants, string(name))
			}
		}
		switch sc := c.SecurityContext; {
		case len(wants) > 0:
			return fmt.Sprintf("has a container %s that requests no %s", c.Name, strings.Join(wants, " and no "))
		case sc != nil && sc.Privileged != nil && *sc.Privileged:
			return fmt.Sprintf("has a container %s that is privileged", c.Name)
		case slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 }):
			return fmt.Sprintf("has a container %s that takes a port of the node (hostPort)", c.Name)
		}
	}
	return ""
}
