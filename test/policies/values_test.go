package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

// wrong are the values that a field that is let in may not have, of each kind, by what is done and
// the words of the rule that refuses it.
var wrong = map[string]map[string]func(kube.Object){
	"shadowpods": onPods(map[string]func(*corev1.PodSpec){
		"the node's network → may not share the namespaces":     func(s *corev1.PodSpec) { s.HostNetwork = true },
		"the node's processes → may not share the namespaces":   func(s *corev1.PodSpec) { s.HostPID = true },
		"the node's IPC → may not share the namespaces":         func(s *corev1.PodSpec) { s.HostIPC = true },
		"a node → may not choose its node":                      func(s *corev1.PodSpec) { s.NodeName = "n" },
		"a priority class → may not choose its node":            func(s *corev1.PodSpec) { s.PriorityClassName = "system-node-critical" },
		"a ServiceAccount → may not choose its node":            func(s *corev1.PodSpec) { s.ServiceAccountName = "admin" },
		"the virtual node's class → may choose a runtime class": func(s *corev1.PodSpec) { s.RuntimeClassName = new("liqo") },
		"a runtime class not lent → may choose a runtime class": func(s *corev1.PodSpec) { s.RuntimeClassName = new("kata") },
		"an address in a probe → it names no host":              func(s *corev1.PodSpec) { s.Containers[0].ReadinessProbe.HTTPGet.Host = "169.254.169.254" },
		"an address in a tcp probe → it names no host":          func(s *corev1.PodSpec) { s.Containers[0].StartupProbe.TCPSocket.Host = "10.0.0.1" },
		"an address in a hook → it names no host": func(s *corev1.PodSpec) {
			s.Containers[0].Lifecycle.PostStart = &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "10.0.0.1"}}
		},
		"an address in another hook → it names no host": func(s *corev1.PodSpec) {
			s.InitContainers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Host: "10.0.0.1"}}}
		},
		"privilege → may not be privileged": func(s *corev1.PodSpec) { s.InitContainers[0].SecurityContext.Privileged = new(true) },
		"a capability → may not be privileged": func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
		},
		"no seccomp → may not be less than the baseline": func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined
		},
		"no seccomp of the pod → may not be less than the baseline": func(s *corev1.PodSpec) {
			s.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		},
		"no AppArmor → may not be less than the baseline": func(s *corev1.PodSpec) {
			s.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		},
		"a type of SELinux → may not be less than the baseline": func(s *corev1.PodSpec) { s.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"} },
		"a host process → may not be less than the baseline": func(s *corev1.PodSpec) {
			s.SecurityContext.WindowsOptions = &corev1.WindowsSecurityContextOptions{HostProcess: new(true)}
		},
		"a sysctl of the node → may not be less than the baseline": func(s *corev1.PodSpec) {
			s.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}
		},
		"a port of the node → may not take a port":  func(s *corev1.PodSpec) { s.Containers[0].Ports[0].HostPort = 80 },
		"a toleration → may tolerate":               func(s *corev1.PodSpec) { s.Tolerations[0].Key = "node.kubernetes.io/unschedulable" },
		"all tolerations → may tolerate":            func(s *corev1.PodSpec) { s.Tolerations[0].Key = "" },
		"a sidecar → may not have sidecars":         func(s *corev1.PodSpec) { s.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways) },
		"no requests → must request cpu and memory": func(s *corev1.PodSpec) { s.InitContainers[0].Resources.Requests = nil },
		"an endless end → at most an hour":          func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = new(int64(3601)) },
		"a negative end → at most an hour":          func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = new(int64(-1)) },
		"next to no cpu → at least 1m of cpu":       func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests = requests("1n", "1Mi") },
		"next to no memory → at least 1m of cpu":    func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests = requests("1m", "1") },
		"a class not lent → an ephemeral volume":    func(s *corev1.PodSpec) { ephemeral(s).StorageClassName = new("local") },
		"no class → an ephemeral volume":            func(s *corev1.PodSpec) { ephemeral(s).StorageClassName = nil },
		"an empty class → an ephemeral volume":      func(s *corev1.PodSpec) { ephemeral(s).StorageClassName = new("") },
		"a required distance from others' pods → may keep away": func(s *corev1.PodSpec) {
			s.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{{TopologyKey: "a", NamespaceSelector: &metav1.LabelSelector{}}}
		},
		"a token for another audience → names no audience": func(s *corev1.PodSpec) { token(s).Audience = "sts.cloud.example" },
		"a folder beside what is let in → may mount":       func(s *corev1.PodSpec) { s.Volumes[0].NFS = &corev1.NFSVolumeSource{Server: "10.0.0.1", Path: "/"} },
	}),
	"services": {
		"a load balancer's groups → on which a controller could act": annotated("cloud.google.com/neg",
			`{"exposed_ports":{"80":{}}}`),
		"an external address → no externalIPs": func(o kube.Object) { o.(*corev1.Service).Spec.ExternalIPs = []string{"10.0.0.1"} },
		"an address of a load balancer → no externalIPs": func(o kube.Object) {
			s := o.(*corev1.Service)
			s.Spec.Type, s.Spec.LoadBalancerIP = corev1.ServiceTypeLoadBalancer, "10.0.0.1"
		},
		"a name in the provider's DNS → on which a controller could act": func(o kube.Object) {
			o.SetAnnotations(with(o.GetAnnotations(), "external-dns.alpha.kubernetes.io/hostname", "www.oslo.example"))
		},
		"a load balancer of a cloud → on which a controller could act": func(o kube.Object) {
			o.SetAnnotations(with(o.GetAnnotations(), "service.beta.kubernetes.io/aws-load-balancer-internal", "true"))
		},
		"another cluster's origin → comes from its own cluster": func(o kube.Object) {
			o.SetLabels(with(o.GetLabels(),
				"offloading.liqo.io/origin", "milan"))
		},
	},
	"ingresses": {"a controller's configuration → on which a controller could act": func(o kube.Object) {
		o.SetAnnotations(with(o.GetAnnotations(), "nginx.ingress.kubernetes.io/configuration-snippet", "x"))
	}},
	"secrets": {
		"a token of an account → is not of a type": func(o kube.Object) {
			o.(*corev1.Secret).Type = corev1.SecretTypeServiceAccountToken
			o.SetAnnotations(with(o.GetAnnotations(), corev1.ServiceAccountNameKey, "default"))
		},
		"a type of Kubernetes → is not of a type": func(o kube.Object) { o.(*corev1.Secret).Type = "kubernetes.io/x" },
		"a machine's plan → is not of a type":     func(o kube.Object) { o.(*corev1.Secret).Type = "rke.cattle.io/machine-plan" },
		"a token of a node → is not of a type":    func(o kube.Object) { o.(*corev1.Secret).Type = corev1.SecretTypeBootstrapToken },
	},
	"persistentvolumeclaims": onClaims(map[string]func(*corev1.PersistentVolumeClaim){
		"an exponent → an amount has at most 32 characters": func(p *corev1.PersistentVolumeClaim) {
			p.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("1e300")
		},
		"a volume → may not name its volume":     func(p *corev1.PersistentVolumeClaim) { p.Spec.VolumeName = "oslos-own" },
		"a selector → names no selector, source": func(p *corev1.PersistentVolumeClaim) { p.Spec.Selector = &metav1.LabelSelector{} },
		"a source → names no selector, source": func(p *corev1.PersistentVolumeClaim) {
			p.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "x"}
		},
		"a class not lent → names a storage class that its pool lends": func(p *corev1.PersistentVolumeClaim) { p.Spec.StorageClassName = new("local") },
		"an empty class → names a storage class that its pool lends":   func(p *corev1.PersistentVolumeClaim) { p.Spec.StorageClassName = new("") },
		"no class → names a storage class that its pool lends":         func(p *corev1.PersistentVolumeClaim) { p.Spec.StorageClassName = nil },
		"a class by its old name → that Kubernetes reads as its class": func(p *corev1.PersistentVolumeClaim) {
			p.Annotations = with(p.Annotations, corev1.BetaStorageClassAnnotation, "local")
		},
		"a node → that Kubernetes reads as its class": func(p *corev1.PersistentVolumeClaim) {
			p.Annotations = with(p.Annotations, "volume.kubernetes.io/selected-node", "n")
		},
		"a folder of a server → on which a controller could act": annotate[*corev1.PersistentVolumeClaim]("nfs.io/storage-path", "../milan"),
		"a clone → on which a controller could act":              annotate[*corev1.PersistentVolumeClaim]("k8s.io/CloneRequest", "milan/data"),
		"an import → on which a controller could act":            annotate[*corev1.PersistentVolumeClaim]("cdi.kubevirt.io/storage.import.endpoint", "http://169.254.169.254/"),
		"that it is bound → that Kubernetes reads as its class": func(p *corev1.PersistentVolumeClaim) {
			p.Annotations = with(p.Annotations, "pv.kubernetes.io/bind-completed", "yes")
		},
	}),
	"shadowendpointslices": {
		"a node → are on no node": func(o kube.Object) {
			o.(*offv1beta1.ShadowEndpointSlice).Spec.Template.Endpoints[0].NodeName = new("oslo-1")
		},
		"another cluster's network → comes from its own cluster": func(o kube.Object) {
			o.SetLabels(with(o.GetLabels(),
				"offloading.liqo.io/origin", "milan"))
		},
		"addresses that are another's → of Liqo's annotations": annotated("liqo.io/direct-connections-data",
			`{"clusterAddresses":{"milan":["10.1.0.7"]}}`),
	},
	"configmaps": {
		"a finalizer of claims, which nobody takes off here → finalizers": func(o kube.Object) { o.SetFinalizers([]string{"kubernetes.io/pvc-protection"}) },
		"more than there may be → " + tooLarge: func(o kube.Object) {
			inAnnotation(o,
				200<<10)
			growing["configmaps"]["data"](o, 400<<10)
		},
	},
	"renews": {"one Renew more → has one Renew": func(o kube.Object) { o.SetName("more") }},
	"namespacemaps": {
		"a namespace of another → are named NAMESPACE-CONSUMER":         func(o kube.Object) { o.(*offv1beta1.NamespaceMap).Spec.DesiredMapping["x"] = "demo-milan" },
		"a tenant's namespace → are not named like those of Kubernetes": func(o kube.Object) { o.(*offv1beta1.NamespaceMap).Spec.DesiredMapping["x"] = "liqo-tenant-new-rome" },
		"one map more → has one NamespaceMap":                           func(o kube.Object) { o.SetName("more") },
		"one of Kubernetes → are not named like those of Kubernetes":    func(o kube.Object) { o.(*offv1beta1.NamespaceMap).Spec.DesiredMapping["x"] = "kube-rome" },
	},
}

// actsAtNodes are annotations of pods on which networks, container runtimes and clouds act.
var actsAtNodes = map[string]string{
	"k8s.v1.cni.cncf.io/networks": "kube-system/host-vlan", "cni.projectcalico.org/ipAddrs": `["10.0.0.1"]`, "v1.multus-cni.io/default-network": "x", "k8s.ovn.org/pod-networks": "{}",
	"ovn.kubernetes.io/ip_address": "10.0.0.1", "policy.cilium.io/no-track-port": "80", "cdi.k8s.io/gpu": "nvidia.com/gpu=all", "io.kubernetes.cri-o.Devices": "/dev/sda",
	"io.kubernetes.cri.runtime-handler": "x", "io.katacontainers.config.hypervisor.path": "/bin/sh", "org.systemd.property.DevicePolicy": "x", "iam.amazonaws.com/role": "admin",
	"container.apparmor.security.beta.kubernetes.io/c": "unconfined", "container.seccomp.security.alpha.kubernetes.io/c": "unconfined", "kubernetes.io/config.mirror": "x",
	"kubevirt.io/domain": "x", "ipam.antrea.io/ippools": "x", "networking.gke.io/interfaces": "[]",
}

func init() {
	for key, value := range actsAtNodes {
		wrong["shadowpods"]["annotation "+key+" → act at its node"] = annotated(key, value)
	}
}

// What tools write on what they make, and types of Secrets on which no controller acts, are let in;
// and on pods what a node does not read.
func TestWhatToolsWrite(t *testing.T) {
	w := start(t)
	c := w.mustAs(t, kubeletOf("rome", user))
	for _, resource := range []string{"services", "ingresses", "persistentvolumeclaims"} {
		o := honest(resource, "tools")
		for key, value := range map[string]string{
			"argocd.argoproj.io/tracking-id": "app:/Service:demo/web", "cloud.google.com/neg": `{"ingress":true}`, "field.cattle.io/publicEndpoints": "null",
			"objectset.rio.cattle.io/id": "x", "kapp.k14s.io/identity": "x", "kustomize.toolkit.fluxcd.io/prune": "disabled", "service.kubernetes.io/topology-mode": "Auto",
		} {
			if resource != "persistentvolumeclaims" || !strings.HasPrefix(key, "service.kubernetes.io/") {
				o.SetAnnotations(with(o.GetAnnotations(), key, value))
			}
		}
		if err := c.Create(t.Context(), o, kube.DryRunAll); err != nil {
			t.Errorf("%s: %v", resource, err)
		}
	}
	for _, kind := range []corev1.SecretType{"servicebinding.io/postgresql",
		"connection.crossplane.io/v1alpha1", "istio.io/key-and-cert", "helm.sh/release.v1", "plain"} {
		o := honest("secrets", "tools").(*corev1.Secret)
		o.Type = kind
		if err := c.Create(t.Context(), o, kube.DryRunAll); err != nil {
			t.Errorf("Secret of type %s: %v", kind, err)
		}
	}
	pod := honest("shadowpods", "tools")
	for key, value := range map[string]string{
		"sidecar.istio.io/inject": "false", "checksum/config": "x", "container.apparmor.security.beta.kubernetes.io/c": "runtime/default", "kubernetes.io/egress-bandwidth": "1M",
		"lb.example/kind": "small", "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
	} {
		pod.SetAnnotations(with(pod.GetAnnotations(), key, value))
	}
	if err := c.Create(t.Context(), pod, kube.DryRunAll); err != nil {
		t.Error(err)
	}
}

// What the SharingPolicy names (namespaces.annotations) is let in, on pods and claims, too. What
// was there before a rule stays.
func TestAnnotationsThatAreLent(t *testing.T) {
	w := start(t)
	c := w.mustAs(t, kubeletOf("rome", user))
	lent := "k8s.v1.cni.cncf.io/networks"
	m := &corev1.ConfigMap{}
	if err := w.admin.Get(t.Context(), kube.ObjectKey{Namespace: "bourse", Name: "bourse-consumers"}, m); err != nil {
		t.Fatal(err)
	}
	m.Data["rome.annotations"] += "," + lent
	if err := w.keeper.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.list(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for _, resource := range []string{"shadowpods", "persistentvolumeclaims"} {
		o := honest(resource, "lent")
		annotated(lent, "blue")(o)
		w.eventually(t, resource+" once the list is known", func() error { return c.Create(t.Context(), o, kube.DryRunAll) })
		there := honest(resource, "before")
		annotated("v1.multus-cni.io/x", "y")(there)
		if err := w.admin.Create(t.Context(), there); err != nil {
			t.Fatal(err)
		}
		defer w.remove(t, there)
		there.SetLabels(with(there.GetLabels(), "team", "green"))
		if err := c.Update(t.Context(), there, kube.DryRunAll); err != nil {
			t.Errorf("%s that was there before the rule cannot be changed any more: %v", resource, err)
		}
	}
}

func annotated(key, value string) func(kube.Object) { return annotate[kube.Object](key, value) }

func annotate[T kube.Object](key, value string) func(T) {
	return func(o T) { o.SetAnnotations(with(o.GetAnnotations(), key, value)) }
}

func token(s *corev1.PodSpec) *corev1.ServiceAccountTokenProjection {
	for _, source := range projected(s).Sources {
		if source.ServiceAccountToken != nil {
			return source.ServiceAccountToken
		}
	}
	panic("the honest pod has none")
}

func onPods(all map[string]func(*corev1.PodSpec)) map[string]func(kube.Object) {
	out := map[string]func(kube.Object){}
	for what, change := range all {
		out[what] = func(o kube.Object) { change(&o.(*offv1beta1.ShadowPod).Spec.Pod) }
	}
	return out
}

func onClaims(all map[string]func(*corev1.PersistentVolumeClaim)) map[string]func(kube.Object) {
	out := map[string]func(kube.Object){}
	for what, change := range all {
		out[what] = func(o kube.Object) { change(o.(*corev1.PersistentVolumeClaim)) }
	}
	return out
}

func ephemeral(s *corev1.PodSpec) *corev1.PersistentVolumeClaimSpec {
	for _, v := range s.Volumes {
		if v.Ephemeral != nil {
			return &v.Ephemeral.VolumeClaimTemplate.Spec
		}
	}
	panic("the honest pod has none")
}

func accountFor(resource string) account {
	if resource == "namespacemaps" || resource == "renews" || resource == "resourceslices" {
		return controlPlaneOf("rome")
	}
	return kubeletOf("rome", user)
}

// Each value that a field may not have is refused, by the rule that is there for it.
func TestValues(t *testing.T) {
	w := start(t)
	for resource, all := range wrong {
		c := w.mustAs(t, accountFor(resource))
		for what, change := range all {
			what, says, _ := strings.Cut(what, " → ")
			t.Run(resource+"/"+what, func(t *testing.T) {
				o := honest(resource, "wrong")
				change(o)
				err := c.Create(t.Context(), o, kube.DryRunAll)
				if !isRefusal(err, says) {
					t.Errorf("it is let in: %v", err)
				}
			})
		}
	}
}

// A volume is not named later, either: Kubernetes lets it be set while a claim is not bound.
func TestAClaimNamesItsVolumeLater(t *testing.T) {
	w := start(t)
	c := w.mustAs(t, kubeletOf("rome", user))
	o := honest("persistentvolumeclaims", "later").(*corev1.PersistentVolumeClaim)
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	defer w.remove(t, o)
	before := o.DeepCopy()
	o.Spec.VolumeName = "oslos-own"
	if err := c.Patch(t.Context(), o, kube.MergeFrom(before)); !isRefusal(err, "may not name its volume") {
		t.Errorf("it is let in: %v", err)
	}
	// What Kubernetes itself wrote there stays, and does not keep Liqo from writing.
	bound := before.DeepCopy()
	bound.Spec.VolumeName = "pv-1"
	bound.Annotations = with(bound.Annotations, "pv.kubernetes.io/bind-completed", "yes")
	if err := w.admin.Patch(t.Context(), bound, kube.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	changed := bound.DeepCopy()
	changed.Labels = with(changed.Labels, "team", "green")
	if err := c.Patch(t.Context(), changed, kube.MergeFrom(bound)); err != nil {
		t.Errorf("a bound claim cannot be changed any more: %v", err)
	}
}

// Several values are refused if one of them is not allowed. Allowed ones pass in any number.
func TestAnyObject(t *testing.T) {
	w := start(t)
	kinds := []string{"configmaps", "secrets", "services", "persistentvolumeclaims",
		"ingresses", "shadowpods", "shadowendpointslices"}
	c := w.mustAs(t, kubeletOf("rome", user))
	keys := rapid.SampledFrom([]string{"liqo.io/", "offloading.liqo.io/", "networking.liqo.io/", "x.y.liqo.io/"})
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		o := honest(kind, "any")
		for range rapid.IntRange(0, 5).Draw(t, "allowed") {
			key := rapid.StringMatching(`[a-z]{1,10}\.example/[a-z]{1,10}`).Draw(t, "key")
			o.SetLabels(with(o.GetLabels(), key, "x"))
			if kind != "services" && kind != "ingresses" && kind != "persistentvolumeclaims" {
				o.SetAnnotations(with(o.GetAnnotations(), key, "x"))
			}
		}
		bad := rapid.IntRange(0, 3).Draw(t, "bad")
		for range bad {
			key := keys.Draw(t, "group") + rapid.StringMatching(`z[a-z]{1,10}`).Draw(t, "name")
			switch rapid.IntRange(0, 3).Draw(t, "how") {
			case 0:
				o.SetLabels(with(o.GetLabels(), key, "x"))
			case 1:
				o.SetAnnotations(with(o.GetAnnotations(), key, "x"))
			case 2:
				o.SetFinalizers(append(o.GetFinalizers(), key))
			case 3:
				if values := slices.Sorted(maps.Keys(wrong[kind])); len(values) > 0 {
					wrong[kind][rapid.SampledFrom(values).Draw(t, "value")](o)
				} else {
					o.SetFinalizers([]string{key})
				}
			}
		}
		err := c.Create(context.Background(), o, kube.DryRunAll)
		if text, _ := json.Marshal(o); bad > 0 && !isPolicy(err) && !strings.Contains(fmt.Sprint(err), "is invalid") ||
			bad == 0 && err != nil {
			t.Fatalf("%d that are not let in: %v\n%s", bad, err, text)
		}
	})
}
