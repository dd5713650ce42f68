package policies

import (
	"reflect"
	"testing"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

// part is something in a pod that has a list of the fields that it may have.
type part struct {
	name string
	of   func(*corev1.PodSpec) reflect.Value
	// besides are fields that are let in and that the honest pod does not have, with the reason.
	besides map[string]string
	// says are words of the rules that refuse all other fields.
	says []string
}

var parts = []part{
	{"pod", func(s *corev1.PodSpec) reflect.Value { return reflect.ValueOf(s).Elem() }, nil, []string{
		"does not copy", "may not choose its node", "resources of its own", "may not share the namespaces",
	}},
	{"container", func(s *corev1.PodSpec) reflect.Value { return reflect.ValueOf(&s.Containers[0]).Elem() },
		map[string]string{
			"RestartPolicy": "of one container, within its pod", "RestartPolicyRules": "of one container, within its pod",
		}, []string{"a field that is not let in"}},
	{"init container", func(s *corev1.PodSpec) reflect.Value { return reflect.ValueOf(&s.InitContainers[0]).Elem() },
		map[string]string{
			"LivenessProbe": "of a kind that the container has", "ReadinessProbe": "likewise", "StartupProbe": "likewise", "Lifecycle": "likewise",
			"RestartPolicyRules": "of one container, within its pod",
		}, []string{"may not have sidecars"}},
	{"resources", func(s *corev1.PodSpec) reflect.Value { return reflect.ValueOf(&s.Containers[0].Resources).Elem() },
		nil, []string{"a field that is not let in"}},
	{"volume", func(s *corev1.PodSpec) reflect.Value { return reflect.ValueOf(&s.Volumes[0].VolumeSource).Elem() },
		volumes, []string{"nothing else (no hostPath"}},
	{"volume of its own", func(s *corev1.PodSpec) reflect.Value {
		s.Volumes = append(s.Volumes, corev1.Volume{Name: "more"})
		return reflect.ValueOf(&s.Volumes[len(s.Volumes)-1].VolumeSource).Elem()
	}, volumes, []string{"nothing else (no hostPath"}},
	{"projection", func(s *corev1.PodSpec) reflect.Value { return reflect.ValueOf(&projected(s).Sources[0]).Elem() },
		map[string]string{
			"ConfigMap": "let in", "DownwardAPI": "let in", "ServiceAccountToken": "let in", "Secret": "let in",
		}, []string{"a projected volume"}},
	{"claim of an ephemeral volume", func(s *corev1.PodSpec) reflect.Value {
		for _, v := range s.Volumes {
			if v.Ephemeral != nil {
				return reflect.ValueOf(&v.Ephemeral.VolumeClaimTemplate.Spec).Elem()
			}
		}
		panic("the honest pod has none")
	}, nil, []string{"an ephemeral volume"}},
	{"affinity", func(s *corev1.PodSpec) reflect.Value { return reflect.ValueOf(s.Affinity).Elem() },
		nil, []string{"not from those of others"}},
	{"anti-affinity", func(s *corev1.PodSpec) reflect.Value {
		return reflect.ValueOf(&s.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm).Elem()
	}, map[string]string{"MatchLabelKeys": "of pods of its own namespace", "MismatchLabelKeys": "likewise"}, []string{"not from those of others"}},
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

// Each field that Kubernetes knows of a pod, and that Liqo's virtual kubelet does not write there,
// is refused: of those that the honest pod has not, each is tried.
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
				if err := c.Create(t.Context(), shadow(spec), kube.DryRunAll); !isRefusal(err, p.says...) {
					t.Errorf("%s is let in: %v", field.Name, err)
				}
				changed := there.DeepCopyObject().(*offv1beta1.ShadowPod)
				changed.Spec.Pod = spec
				if err := c.Update(t.Context(), changed, kube.DryRunAll); !isRefusal(err, p.says...) {
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
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory), "nvidia.com/gpu": resource.MustParse("1")}
}
