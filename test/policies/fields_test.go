package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

// part is something in a pod that has a list of the fields that it may have.
type part struct {
	name string
	of   func(*corev1.PodSpec) reflect.Value
	// besides are fields that are let in and that the honest pod does not have, with the reason.
	besides map[string]string
}

var parts = []part{
	{"pod", func(s *corev1.PodSpec) reflect.Value { return reflect.ValueOf(s).Elem() }, nil},
	{"container", func(s *corev1.PodSpec) reflect.Value { return reflect.ValueOf(&s.Containers[0]).Elem() }, map[string]string{
		"RestartPolicy": "of one container, within its pod", "RestartPolicyRules": "of one container, within its pod",
	}},
	{"init container", func(s *corev1.PodSpec) reflect.Value { return reflect.ValueOf(&s.InitContainers[0]).Elem() }, map[string]string{
		"LivenessProbe": "of a kind that the container has", "ReadinessProbe": "likewise", "StartupProbe": "likewise", "Lifecycle": "likewise",
		"RestartPolicyRules": "of one container, within its pod",
	}},
	{"resources", func(s *corev1.PodSpec) reflect.Value { return reflect.ValueOf(&s.Containers[0].Resources).Elem() }, nil},
	{"volume", func(s *corev1.PodSpec) reflect.Value { return reflect.ValueOf(&s.Volumes[0].VolumeSource).Elem() }, volumes},
	{"volume of its own", func(s *corev1.PodSpec) reflect.Value {
		s.Volumes = append(s.Volumes, corev1.Volume{Name: "more"})
		return reflect.ValueOf(&s.Volumes[len(s.Volumes)-1].VolumeSource).Elem()
	}, volumes},
	{"projection", func(s *corev1.PodSpec) reflect.Value { return reflect.ValueOf(&projected(s).Sources[0]).Elem() }, map[string]string{
		"ConfigMap": "let in", "DownwardAPI": "let in", "ServiceAccountToken": "let in", "Secret": "let in",
	}},
	{"claim of an ephemeral volume", func(s *corev1.PodSpec) reflect.Value {
		for _, v := range s.Volumes {
			if v.Ephemeral != nil {
				return reflect.ValueOf(&v.Ephemeral.VolumeClaimTemplate.Spec).Elem()
			}
		}
		panic("the honest pod has none")
	}, nil},
	{"affinity", func(s *corev1.PodSpec) reflect.Value { return reflect.ValueOf(s.Affinity).Elem() }, nil},
	{"anti-affinity", func(s *corev1.PodSpec) reflect.Value {
		return reflect.ValueOf(&s.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm).Elem()
	}, map[string]string{"MatchLabelKeys": "of pods of its own namespace", "MismatchLabelKeys": "likewise"}},
}

var volumes = map[string]string{
	"EmptyDir": "let in", "Secret": "let in", "ConfigMap": "let in", "DownwardAPI": "let in", "PersistentVolumeClaim": "let in", "Projected": "let in",
	"Ephemeral": "let in, of a class that is lent",
}

func projected(s *corev1.PodSpec) *corev1.ProjectedVolumeSource {
	for _, v := range s.Volumes {
		if v.Projected != nil {
			return v.Projected
		}
	}
	panic("the honest pod has none")
}

// Each field that Kubernetes knows of a pod, and that Liqo's virtual kubelet does not write there, is refused: of those that the honest pod has not, each is tried.
func TestFieldsOfAPod(t *testing.T) {
	w := start(t)
	c := w.mustAs(t, kubeletOf("rome", user))
	shadow := func(spec corev1.PodSpec) kube.Object {
		o := honest("shadowpods", "fields").(*offv1beta1.ShadowPod)
		o.Spec.Pod = spec
		return o
	}
	if err := c.Create(t.Context(), shadow(pod()), kube.DryRunAll); err != nil {
		t.Fatal(err)
	}
	there := shadow(pod())
	there.SetName("there")
	if err := c.Create(t.Context(), there); err != nil {
		t.Fatal(err)
	}
	defer w.remove(t, there)
	for _, p := range parts {
		honestPod := pod()
		kind := p.of(&honestPod).Type()
		for i := range kind.NumField() {
			field := kind.Field(i)
			spec := pod()
			value := p.of(&spec).Field(i)
			if !value.IsZero() || p.besides[field.Name] != "" {
				continue
			}
			fill(value, 0)
			t.Run(p.name+"/"+field.Name, func(t *testing.T) {
				if err := c.Create(t.Context(), shadow(spec), kube.DryRunAll); !isPolicy(err) {
					t.Errorf("%s is let in: %v", field.Name, err)
				}
				changed := there.DeepCopyObject().(*offv1beta1.ShadowPod)
				changed.Spec.Pod = spec
				if err := c.Update(t.Context(), changed, kube.DryRunAll); !isPolicy(err) {
					t.Errorf("%s is let in by an update: %v", field.Name, err)
				}
			})
		}
	}
}

// fill gives a value something other than nothing.
func fill(v reflect.Value, depth int) {
	switch v.Addr().Interface().(type) {
	case *resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse("1")))
		return
	case *metav1.LabelSelector:
		v.Set(reflect.ValueOf(metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}))
		return
	case *corev1.EphemeralContainer:
		v.Set(reflect.ValueOf(corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "x"}}))
		return
	case *intstr.IntOrString:
		v.Set(reflect.ValueOf(intstr.FromInt32(1)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if depth < 3 && v.Field(i).CanSet() {
				fill(v.Field(i), depth+1)
			}
		}
	}
}

func requests(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), "nvidia.com/gpu": resource.MustParse("1")}
}

// wrong are the values that a field that is let in may not have, by what is done: of pods, and of the kinds that Kubernetes has itself.
var wrong = map[string]map[string]func(kube.Object){
	"shadowpods": onPods(map[string]func(*corev1.PodSpec){
		"the node's network":        func(s *corev1.PodSpec) { s.HostNetwork = true },
		"the node's processes":      func(s *corev1.PodSpec) { s.HostPID = true },
		"the node's IPC":            func(s *corev1.PodSpec) { s.HostIPC = true },
		"a node":                    func(s *corev1.PodSpec) { s.NodeName = "n" },
		"a priority class":          func(s *corev1.PodSpec) { s.PriorityClassName = "system-node-critical" },
		"a ServiceAccount":          func(s *corev1.PodSpec) { s.ServiceAccountName = "admin" },
		"the virtual node's class":  func(s *corev1.PodSpec) { s.RuntimeClassName = new("liqo") },
		"a runtime class not lent":  func(s *corev1.PodSpec) { s.RuntimeClassName = new("kata") },
		"an address in a probe":     func(s *corev1.PodSpec) { s.Containers[0].ReadinessProbe.HTTPGet.Host = "169.254.169.254" },
		"an address in a tcp probe": func(s *corev1.PodSpec) { s.Containers[0].StartupProbe.TCPSocket.Host = "10.0.0.1" },
		"an address in a hook": func(s *corev1.PodSpec) {
			s.Containers[0].Lifecycle.PostStart = &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "10.0.0.1"}}
		},
		"an address in another hook": func(s *corev1.PodSpec) {
			s.InitContainers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{Host: "10.0.0.1"}}}
		},
		"privilege": func(s *corev1.PodSpec) { s.InitContainers[0].SecurityContext.Privileged = new(true) },
		"a capability": func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
		},
		"no seccomp": func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined
		},
		"no seccomp of the pod": func(s *corev1.PodSpec) {
			s.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		},
		"no AppArmor": func(s *corev1.PodSpec) {
			s.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		},
		"a type of SELinux": func(s *corev1.PodSpec) { s.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"} },
		"a host process": func(s *corev1.PodSpec) {
			s.SecurityContext.WindowsOptions = &corev1.WindowsSecurityContextOptions{HostProcess: new(true)}
		},
		"a sysctl of the node": func(s *corev1.PodSpec) {
			s.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}
		},
		"a port of the node": func(s *corev1.PodSpec) { s.Containers[0].Ports[0].HostPort = 80 },
		"a toleration":       func(s *corev1.PodSpec) { s.Tolerations[0].Key = "node.kubernetes.io/unschedulable" },
		"all tolerations":    func(s *corev1.PodSpec) { s.Tolerations[0].Key = "" },
		"a sidecar":          func(s *corev1.PodSpec) { s.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways) },
		"no requests":        func(s *corev1.PodSpec) { s.InitContainers[0].Resources.Requests = nil },
		"an endless end":     func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = new(int64(3601)) },
		"a negative end":     func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = new(int64(-1)) },
		"next to no cpu":     func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests = requests("1n", "1Mi") },
		"next to no memory":  func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests = requests("1m", "1") },
		"a class not lent":   func(s *corev1.PodSpec) { ephemeral(s).StorageClassName = new("local") },
		"no class":           func(s *corev1.PodSpec) { ephemeral(s).StorageClassName = nil },
		"an empty class":     func(s *corev1.PodSpec) { ephemeral(s).StorageClassName = new("") },
		"a required distance from others' pods": func(s *corev1.PodSpec) {
			s.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{{TopologyKey: "a", NamespaceSelector: &metav1.LabelSelector{}}}
		},
		"a folder beside what is let in": func(s *corev1.PodSpec) { s.Volumes[0].NFS = &corev1.NFSVolumeSource{Server: "10.0.0.1", Path: "/"} },
	}),
	"services": {
		"an external address": func(o kube.Object) { o.(*corev1.Service).Spec.ExternalIPs = []string{"10.0.0.1"} },
		"an address of a load balancer": func(o kube.Object) {
			s := o.(*corev1.Service)
			s.Spec.Type, s.Spec.LoadBalancerIP = corev1.ServiceTypeLoadBalancer, "10.0.0.1"
		},
		"a name in the provider's DNS": func(o kube.Object) {
			o.SetAnnotations(with(o.GetAnnotations(), "external-dns.alpha.kubernetes.io/hostname", "www.oslo.example"))
		},
		"a load balancer of a cloud": func(o kube.Object) {
			o.SetAnnotations(with(o.GetAnnotations(), "service.beta.kubernetes.io/aws-load-balancer-internal", "true"))
		},
		"another cluster's origin": func(o kube.Object) { o.SetLabels(with(o.GetLabels(), "offloading.liqo.io/origin", "milan")) },
	},
	"ingresses": {"a controller's configuration": func(o kube.Object) {
		o.SetAnnotations(with(o.GetAnnotations(), "nginx.ingress.kubernetes.io/configuration-snippet", "x"))
	}},
	"secrets": {
		"a token of an account": func(o kube.Object) {
			o.(*corev1.Secret).Type = corev1.SecretTypeServiceAccountToken
			o.SetAnnotations(with(o.GetAnnotations(), corev1.ServiceAccountNameKey, "default"))
		},
		"a type of its own": func(o kube.Object) { o.(*corev1.Secret).Type = "rome.example/x" },
		"a token of a node": func(o kube.Object) { o.(*corev1.Secret).Type = corev1.SecretTypeBootstrapToken },
	},
	"persistentvolumeclaims": onClaims(map[string]func(*corev1.PersistentVolumeClaim){
		"a volume":   func(p *corev1.PersistentVolumeClaim) { p.Spec.VolumeName = "oslos-own" },
		"a selector": func(p *corev1.PersistentVolumeClaim) { p.Spec.Selector = &metav1.LabelSelector{} },
		"a source": func(p *corev1.PersistentVolumeClaim) {
			p.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "x"}
		},
		"a class not lent": func(p *corev1.PersistentVolumeClaim) { p.Spec.StorageClassName = new("local") },
		"an empty class":   func(p *corev1.PersistentVolumeClaim) { p.Spec.StorageClassName = new("") },
		"no class":         func(p *corev1.PersistentVolumeClaim) { p.Spec.StorageClassName = nil },
		"a class by its old name": func(p *corev1.PersistentVolumeClaim) {
			p.Annotations = with(p.Annotations, corev1.BetaStorageClassAnnotation, "local")
		},
		"a node": func(p *corev1.PersistentVolumeClaim) {
			p.Annotations = with(p.Annotations, "volume.kubernetes.io/selected-node", "n")
		},
		"that it is bound": func(p *corev1.PersistentVolumeClaim) {
			p.Annotations = with(p.Annotations, "pv.kubernetes.io/bind-completed", "yes")
		},
	}),
	"shadowendpointslices": {
		"a node": func(o kube.Object) {
			o.(*offv1beta1.ShadowEndpointSlice).Spec.Template.Endpoints[0].NodeName = new("oslo-1")
		},
		"another cluster's network": func(o kube.Object) { o.SetLabels(with(o.GetLabels(), "offloading.liqo.io/origin", "milan")) },
	},
	"renews": {"one Renew more": func(o kube.Object) { o.SetName("more") }},
	"namespacemaps": {
		"a namespace of another": func(o kube.Object) { o.(*offv1beta1.NamespaceMap).Spec.DesiredMapping["x"] = "demo-milan" },
		"a tenant's namespace":   func(o kube.Object) { o.(*offv1beta1.NamespaceMap).Spec.DesiredMapping["x"] = "liqo-tenant-new-rome" },
		"one map more":           func(o kube.Object) { o.SetName("more") },
		"one of Kubernetes":      func(o kube.Object) { o.(*offv1beta1.NamespaceMap).Spec.DesiredMapping["x"] = "kube-rome" },
	},
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
	if resource == "namespacemaps" || resource == "renews" {
		return controlPlaneOf("rome")
	}
	return kubeletOf("rome", user)
}

// Each value that a field may not have is refused.
func TestValues(t *testing.T) {
	w := start(t)
	for resource, all := range wrong {
		c := w.mustAs(t, accountFor(resource))
		for what, change := range all {
			t.Run(resource+"/"+what, func(t *testing.T) {
				o := honest(resource, "wrong")
				change(o)
				if err := c.Create(t.Context(), o, kube.DryRunAll); !isPolicy(err) {
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
	if err := c.Patch(t.Context(), o, kube.MergeFrom(before)); !isPolicy(err) {
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

// Several things at once, of which one at least is not let in, are refused, whatever else there is; those that are let in pass in any number.
func TestAnyObject(t *testing.T) {
	w := start(t)
	kinds := []string{"configmaps", "secrets", "services", "persistentvolumeclaims", "ingresses", "shadowpods", "shadowendpointslices"}
	c := w.mustAs(t, kubeletOf("rome", user))
	keys := rapid.SampledFrom([]string{"liqo.io/", "offloading.liqo.io/", "networking.liqo.io/", "x.y.liqo.io/"})
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		o := honest(kind, "any")
		for range rapid.IntRange(0, 5).Draw(t, "allowed") {
			key := rapid.StringMatching(`[a-z]{1,10}\.example/[a-z]{1,10}`).Draw(t, "key")
			o.SetLabels(with(o.GetLabels(), key, "x"))
			if kind != "services" && kind != "ingresses" {
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
		if text, _ := json.Marshal(o); bad > 0 && !isPolicy(err) && !strings.Contains(fmt.Sprint(err), "is invalid") || bad == 0 && err != nil {
			t.Fatalf("%d that are not let in: %v\n%s", bad, err, text)
		}
	})
}
