package offload

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What a provider would refuse is named as such, and nothing else is.
func TestRefused(t *testing.T) {
	yes := true
	pod := func(change func(*corev1.PodSpec, *corev1.Container)) *corev1.PodSpec {
		s := &corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")},
		}}}}
		change(s, &s.Containers[0])
		return s
	}
	for says, change := range map[string]func(*corev1.PodSpec, *corev1.Container){
		"":                          func(*corev1.PodSpec, *corev1.Container) {},
		"requests no memory":        func(_ *corev1.PodSpec, c *corev1.Container) { delete(c.Resources.Requests, "memory") },
		"requests no cpu and no me": func(_ *corev1.PodSpec, c *corev1.Container) { c.Resources.Requests = nil },
		"container i that requests": func(s *corev1.PodSpec,
			_ *corev1.Container) {
			s.InitContainers = []corev1.Container{{Name: "i"}}
		},
		"more than one hour": func(s *corev1.PodSpec,
			_ *corev1.Container) {
			s.TerminationGracePeriodSeconds = new(int64(3601))
		},
		"less cpu than providers count": func(_ *corev1.PodSpec, c *corev1.Container) {
			c.Resources.Requests["cpu"] = resource.MustParse("1n")
		},
		"more cpu than Liqo counts": func(s *corev1.PodSpec, c *corev1.Container) {
			first, second := c.DeepCopy(), c.DeepCopy()
			first.Resources.Requests["cpu"], second.Resources.Requests["cpu"] = resource.MustParse("1100m"), resource.MustParse("2")
			s.InitContainers = []corev1.Container{*first, *second}
		},
		"is privileged": func(_ *corev1.PodSpec, c *corev1.Container) {
			c.SecurityContext = &corev1.SecurityContext{Privileged: &yes}
		},
		"hostPort":    func(_ *corev1.PodSpec, c *corev1.Container) { c.Ports = []corev1.ContainerPort{{HostPort: 1}} },
		"hostNetwork": func(s *corev1.PodSpec, _ *corev1.Container) { s.HostPID = true },
		"hostPath": func(s *corev1.PodSpec, _ *corev1.Container) {
			s.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		},
		"kind that providers do not mount": func(s *corev1.PodSpec, _ *corev1.Container) {
			s.Volumes = []corev1.Volume{{Name: "v",
				VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}}}}
		},
		"a source other than ConfigMap": func(s *corev1.PodSpec, _ *corev1.Container) {
			s.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}}}}}}
		},
		"has no storage class": func(s *corev1.PodSpec, _ *corev1.Container) {
			s.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}}}}}
		},
		"uses a ResourceClaim": func(_ *corev1.PodSpec, c *corev1.Container) {
			c.Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
		},
		"probe or hook that names a host": func(_ *corev1.PodSpec, c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "10.0.0.1"}}}
		},
	} {
		if got := refused(pod(change)); !strings.Contains(got, says) || (got == "") != (says == "") {
			t.Errorf("%q, want %q", got, says)
		}
	}
}

// An annotation that acts at a provider's nodes is named; others are not.
func TestRefusedAnnotations(t *testing.T) {
	for key, value := range map[string]string{
		"k8s.v1.cni.cncf.io/networks": "x", "cdi.k8s.io/gpu": "x", "io.kubernetes.cri-o.Devices": "x", "container.apparmor.security.beta.kubernetes.io/c": "unconfined",
	} {
		if got := refusedAnnotation(map[string]string{"a.example/b": "c", key: value}); !strings.Contains(got, key) {
			t.Errorf("%s: %q", key, got)
		}
	}
	if got := refusedAnnotation(map[string]string{
		"a.example/b": "c", "notcilium.io/x": "y", "kubernetes.io/egress-bandwidth": "1M", "container.apparmor.security.beta.kubernetes.io/c": "runtime/default",
	}); got != "" {
		t.Error(got)
	}
}
