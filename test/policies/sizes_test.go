package policies

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

const tooLarge = "takes at most 128 KiB"

// most is how many bytes of JSON an object of each kind may take. THREAT_MODEL.md adds them up.
var most = map[string]int{
	"shadowpods": 128 << 10, "shadowendpointslices": 128 << 10, "secrets": 512 << 10, "configmaps": 512 << 10,
	"services": 32 << 10, "persistentvolumeclaims": 32 << 10, "ingresses": 32 << 10,
}

// growing are ways to make an object of each kind as large as one likes: by n bytes, characters or elements.
var growing = map[string]map[string]func(o kube.Object, n int){
	"shadowpods": {
		"a value":          inEnv("x"),
		"what JSON quotes": inEnv("<"), "quotes": inEnv(`"`), "control characters": inEnv("\x01"), "letters of other scripts": inEnv("語"), "soft hyphens": inEnv("\u00ad"),
		"an annotation": inAnnotation,
		"variables": func(o kube.Object, n int) {
			c := &o.(*offv1beta1.ShadowPod).Spec.Pod.Containers[0]
			for i := range n / 20 {
				c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", i), Value: "some value"})
			}
		},
		"containers": func(o kube.Object, n int) {
			s := &o.(*offv1beta1.ShadowPod).Spec.Pod
			for i := range n / 500 {
				c := s.Containers[0].DeepCopy()
				c.Name = fmt.Sprintf("c-%d", i)
				s.Containers = append(s.Containers, *c)
			}
		},
		"labels": func(o kube.Object, n int) {
			for i := range n / 20 {
				o.GetLabels()[fmt.Sprintf("label-%d", i)] = "x"
			}
		},
		"who manages it": func(o kube.Object, n int) {
			fields := map[string]any{}
			for i := range n / 20 {
				fields[fmt.Sprintf("f:field-%d", i)] = map[string]any{}
			}
			raw, _ := json.Marshal(map[string]any{"f:metadata": map[string]any{"f:labels": fields}})
			managed(o, raw)
		},
	},
	"shadowendpointslices": {
		"an annotation": inAnnotation,
		"endpoints": func(o kube.Object, n int) {
			s := &o.(*offv1beta1.ShadowEndpointSlice).Spec.Template
			for i := range n / 40 {
				s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.1.%d.%d", i>>8, i&255)}})
			}
		},
	},
	"secrets": {"data": func(o kube.Object, n int) {
		o.(*corev1.Secret).Data["large"] = []byte(strings.Repeat("x", n))
	}},
	"configmaps": {
		"data": func(o kube.Object, n int) { o.(*corev1.ConfigMap).Data["large"] = strings.Repeat("x", n) },
		"binaryData": func(o kube.Object, n int) {
			o.(*corev1.ConfigMap).BinaryData = map[string][]byte{"large": make([]byte, n)}
		},
		"lines": func(o kube.Object, n int) {
			o.(*corev1.ConfigMap).Data["large"] = strings.Repeat("key: \"value\"\n", n/13)
		},
	},
	"services": {
		"an annotation": inAnnotation,
		"ports": func(o kube.Object, n int) {
			s := &o.(*corev1.Service).Spec
			for i := range n / 50 {
				s.Ports = append(s.Ports, corev1.ServicePort{Name: fmt.Sprintf("p-%d", i),
					Port: int32(1000 + i), Protocol: corev1.ProtocolTCP})
			}
		},
	},
	"persistentvolumeclaims": {"an annotation": inAnnotation},
	"ingresses": {"an annotation": inAnnotation, "rules": func(o kube.Object, n int) {
		s := &o.(*networkingv1.Ingress).Spec
		for i := range n / 200 {
			r := *s.Rules[0].DeepCopy()
			r.Host = fmt.Sprintf("web-%d.example", i)
			s.Rules = append(s.Rules, r)
		}
	}},
}

func inEnv(character string) func(kube.Object, int) {
	return func(o kube.Object, n int) {
		o.(*offv1beta1.ShadowPod).Spec.Pod.Containers[0].Env = []corev1.EnvVar{{Name: "A",
			Value: strings.Repeat(character, n)}}
	}
}

func inAnnotation(o kube.Object, n int) {
	o.SetAnnotations(with(o.GetAnnotations(), "large", strings.Repeat("x", n)))
}

// What a consumer writes is bounded in bytes, however it is made large: just below the bound it is
// let in, just above it is refused by a message that says the bound. Nothing that is let in takes
// more bytes than the bound in etcd.
func TestSizes(t *testing.T) {
	w := start(t)
	c := w.mustAs(t, kubeletOf("rome", user))
	for kind, ways := range growing {
		for how, grow := range ways {
			t.Run(kind+"/"+how, func(t *testing.T) {
				write := func(n int) (int, error) {
					o := honest(kind, "large")
					grow(o, n)
					err := c.Create(t.Context(), o, kube.DryRunAll)
					text, _ := json.Marshal(o)
					return len(text), err
				}
				least, end := 0, 2*most[kind] // the largest that is let in is at least the former, and smaller than the latter
				for end-least > 1 {
					n := (least + end) / 2
					_, err := write(n)
					switch {
					case err == nil:
						least = n
					case isRefusal(err, tooLarge):
						end = n
					default:
						t.Fatalf("%d: it is refused for something else: %v", n, err)
					}
				}
				size, err := write(least)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%d bytes are let in, of %d", size, most[kind])
				if size > most[kind] {
					t.Errorf("%d bytes are let in, of at most %d", size, most[kind])
				}
				if end == 2*most[kind] || size < most[kind]/3 {
					t.Errorf("of %d bytes only %d are let in", most[kind], size)
				}
			})
		}
	}
}

// An object cannot grow beyond the bound later. One that was larger before the rule was there can
// be changed, and become smaller.
func TestSizesOfChanges(t *testing.T) {
	w := start(t)
	c := w.mustAs(t, kubeletOf("rome", user))
	for kind, grow := range map[string]func(kube.Object, int){"configmaps": growing["configmaps"]["data"],
		"shadowpods": inAnnotation, "services": inAnnotation} {
		t.Run(kind, func(t *testing.T) {
			small := honest(kind, "grows")
			if err := c.Create(t.Context(), small); err != nil {
				t.Fatal(err)
			}
			defer w.remove(t, small)
			large := small.DeepCopyObject().(kube.Object)
			grow(large, most[kind])
			if err := c.Update(t.Context(), large.DeepCopyObject().(kube.Object), kube.DryRunAll); !isRefusal(err, tooLarge) {
				t.Errorf("it grows by an update: %v", err)
			}
			if err := c.Patch(t.Context(), large, kube.MergeFrom(small), kube.DryRunAll); !isRefusal(err, tooLarge) {
				t.Errorf("it grows by a patch: %v", err)
			}
			before := honest(kind, "before")
			grow(before, most[kind])
			if err := w.admin.Create(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			defer w.remove(t, before)
			change := func(o kube.Object, by int) error {
				grow(o, most[kind]+by)
				return c.Patch(t.Context(), o, kube.MergeFrom(before), kube.DryRunAll)
			}
			if err := change(before.DeepCopyObject().(kube.Object), -200); err != nil {
				t.Errorf("what was larger before cannot become smaller: %v", err)
			}
			if err := change(before.DeepCopyObject().(kube.Object), 200); !isRefusal(err, tooLarge) {
				t.Errorf("what was larger before grows on: %v", err)
			}
		})
	}
	pod := honest("shadowpods", "swapped") // of what takes one byte, as many as there may be
	inAnnotation(pod, 100<<10)
	if err := c.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	defer w.remove(t, pod)
	swapped := pod.DeepCopyObject().(kube.Object)
	swapped.SetAnnotations(with(pod.GetAnnotations(), "large", strings.Repeat("<", 100<<10))) // which takes six
	if err := c.Update(t.Context(), swapped, kube.DryRunAll); !isRefusal(err, tooLarge) {
		t.Errorf("it takes six times as much after an update: %v", err)
	}
}

// managed says that somebody else manages fields of an object.
func managed(o kube.Object, fields []byte) {
	var list []map[string]any
	raw, _ := json.Marshal(map[string]any{"metadata": map[string]any{"managedFields": append(list, map[string]any{
		"manager": "other", "operation": "Apply", "apiVersion": "offloading.liqo.io/v1beta1", "fieldsType": "FieldsV1", "fieldsV1": json.RawMessage(fields),
	})}})
	_ = json.Unmarshal(raw, o)
}
