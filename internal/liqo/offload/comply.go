package offload

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FindRefusedPods lists the Pending pods of a namespace that every brokered provider would reject, each
// with the first reason. Kubernetes itself shows no reason. r may read from a cache.
func FindRefusedPods(ctx context.Context, r client.Reader, namespace string) ([]string, error) {
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.InNamespace(namespace),
		client.Limit(500), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}); err != nil {
		return nil, err
	}
	var out []string
	for _, p := range pods.Items {
		if p.Status.Phase != corev1.PodPending || p.DeletionTimestamp != nil {
			continue
		}
		why := Refused(&p)
		if p.Spec.NodeName == "" && !slices.ContainsFunc(p.Spec.Tolerations,
			func(t corev1.Toleration) bool { return t.Key == consts.VirtualNodeTolerationKey }) {
			why = "was created before its namespace was offloaded and cannot run on a virtual node: " +
				"delete it, so that its controller creates another"
		}
		if why != "" {
			out = append(out, fmt.Sprintf("pod %s/%s %s", p.Namespace, p.Name, why))
		}
	}
	slices.Sort(out)
	return out, nil
}

// Refused returns the reason for which every brokered provider would reject a pod; empty if they admit it.
func Refused(p *corev1.Pod) string { return cmp.Or(refused(&p.Spec), refusedAnnotation(p.Annotations)) }

// refused returns the reason for which a provider's admission policies (config/liqo/policies.yaml)
// would reject a pod; empty if they admit it. Liqo itself removes the node name, the priority and the
// ServiceAccount from the pods that it sends.
func refused(s *corev1.PodSpec) string {
	if s.HostNetwork || s.HostPID || s.HostIPC {
		return "shares the namespaces of the node (hostNetwork, hostPID, hostIPC)"
	}
	for _, v := range s.Volumes {
		if why := refusedVolume(&v); why != "" {
			return fmt.Sprintf("has a volume %s %s", v.Name, why)
		}
	}
	if s.Resources != nil || slices.ContainsFunc(s.InitContainers,
		func(c corev1.Container) bool { return c.RestartPolicy != nil }) {
		return "has a sidecar or pod-level resources, which Liqo does not count"
	}
	if g := s.TerminationGracePeriodSeconds; g != nil && *g > longestGrace {
		return "has a grace period of more than one hour (terminationGracePeriodSeconds)"
	}
	if countsLess(s) {
		return "has an init container that requests more cpu than Liqo counts: put the one with the greatest request first"
	}
	for _, c := range slices.Concat(s.Containers, s.InitContainers) {
		var wants []string
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if amount := c.Resources.Requests[name]; amount.Sign() <= 0 {
				wants = append(wants, string(name))
			} else if amount.Cmp(least[name]) < 0 {
				return fmt.Sprintf("has a container %s that requests less %s than providers count", c.Name, name)
			}
		}
		switch sc := c.SecurityContext; {
		case len(wants) > 0:
			return fmt.Sprintf("has a container %s that requests no %s", c.Name, strings.Join(wants, " and no "))
		case sc != nil && sc.Privileged != nil && *sc.Privileged:
			return fmt.Sprintf("has a container %s that is privileged", c.Name)
		case slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 }):
			return fmt.Sprintf("has a container %s that takes a port of the node (hostPort)", c.Name)
		case len(c.Resources.Claims) > 0:
			return fmt.Sprintf("has a container %s that uses a ResourceClaim", c.Name)
		case reachesHost(&c):
			return fmt.Sprintf("has a container %s with a probe or hook that names a host", c.Name)
		}
	}
	return ""
}

// longestGrace is the longest grace period of a pod, in seconds.
const longestGrace = 3600

// least is what each container must request.
var least = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"),
	corev1.ResourceMemory: resource.MustParse("1Mi")}

// countsLess reports whether Liqo counts less cpu for a pod than Kubernetes does: Liqo compares init
// containers by whole CPUs, rounded up.
func countsLess(s *corev1.PodSpec) bool {
	var sum, counted, most resource.Quantity
	for _, c := range s.Containers {
		sum.Add(*c.Resources.Requests.Cpu())
	}
	for _, c := range s.InitContainers {
		cpu := *c.Resources.Requests.Cpu()
		if counted.Value() < cpu.Value() {
			counted = cpu
		}
		if most.Cmp(cpu) < 0 {
			most = cpu
		}
	}
	return most.Cmp(sum) > 0 && most.Cmp(counted) > 0
}

// atNodes and prefixes are domains and key prefixes of annotations on which networks, container
// runtimes and clouds act (policy bourse-reflected).
var (
	atNodes = []string{
		"antrea.io", "cdi.k8s.io", "cilium.io", "cni.cncf.io", "danm.k8s.io", "iam.amazonaws.com",
		"kubevirt.io", "multus-cni.io", "networking.gke.io", "nri.io", "ovn.kubernetes.io", "ovn.org",
		"projectcalico.org", "security.alpha.kubernetes.io", "security.beta.kubernetes.io",
		"spidernet.io", "vpc.amazonaws.com", "whereabouts.cni.io",
	}
	prefixes = []string{"io.cilium", "io.containerd.", "io.katacontainers.",
		"io.kubernetes.", "kubernetes.io/config.", "org.systemd.", "run.oci."}
)

// refusedAnnotation returns a reason that names the first annotation that a provider would reject,
// unless its SharingPolicy allows it; empty if none.
func refusedAnnotation(all map[string]string) string {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		profile := strings.HasPrefix(key, "container.apparmor.security.beta.kubernetes.io/") &&
			(all[key] == "runtime/default" || strings.HasPrefix(all[key], "localhost/"))
		if ActsAtNodes(key) && !profile {
			return fmt.Sprintf("has annotation %s, on which a node acts: a provider accepts it only if its SharingPolicy "+
				"names it (namespaces.annotations)", key)
		}
	}
	return ""
}

// ActsAtNodes reports whether networks, container runtimes or clouds act on a pod annotation.
func ActsAtNodes(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return slices.ContainsFunc(atNodes, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) }) ||
		slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}

// refusedVolume returns the reason for which a volume would be rejected; empty if it is admitted. It
// does not know the storage classes of a provider.
func refusedVolume(v *corev1.Volume) string {
	switch {
	case v.HostPath != nil:
		return "that is a folder of the node (hostPath)"
	case v.Projected != nil:
		if slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.ConfigMap == nil && s.DownwardAPI == nil && s.Secret == nil && s.ServiceAccountToken == nil
		}) {
			return "with a source other than ConfigMap, DownwardAPI, Secret or ServiceAccountToken"
		}
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		t := v.Ephemeral.VolumeClaimTemplate
		if s := t.Spec; len(t.Labels)+len(t.Annotations) > 0 || s.StorageClassName == nil ||
			*s.StorageClassName == "" || s.VolumeName != "" || s.Selector != nil ||
			s.DataSource != nil || s.DataSourceRef != nil || s.VolumeAttributesClassName != nil {
			return "whose template has no storage class, or has a volume, selector, source, labels or annotations"
		}
	case v.ConfigMap == nil && v.DownwardAPI == nil && v.EmptyDir == nil &&
		v.PersistentVolumeClaim == nil && v.Secret == nil:
		return "of a kind that providers do not mount"
	}
	return ""
}

// reachesHost reports whether the kubelet would call an address other than the pod's.
func reachesHost(c *corev1.Container) bool {
	named := func(get *corev1.HTTPGetAction, socket *corev1.TCPSocketAction) bool {
		return get != nil && get.Host != "" || socket != nil && socket.Host != ""
	}
	probe := func(p *corev1.Probe) bool { return p != nil && named(p.HTTPGet, p.TCPSocket) }
	hook := func(h *corev1.LifecycleHandler) bool { return h != nil && named(h.HTTPGet, h.TCPSocket) }
	return probe(c.LivenessProbe) || probe(c.ReadinessProbe) || probe(c.StartupProbe) ||
		c.Lifecycle != nil && (hook(c.Lifecycle.PostStart) || hook(c.Lifecycle.PreStop))
}
