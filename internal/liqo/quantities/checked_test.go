package quantities

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/liqotest"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// slow takes Go about 2 s to read, and is then 1n.
const slow = "1e-6000000"

// A client and an informer read objects with an amount that takes long to read, and all others, in a list, one by
// one and as they come. The amount is 0. The problem names the object until it is gone.
func TestObjectsAreReadWithoutTheirBadAmounts(t *testing.T) {
	kind, scheme := authv1beta1.GroupVersion.WithKind("ResourceSlice"), runtime.NewScheme()
	if err := liqo.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cluster := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{{GroupVersion: kind.GroupVersion(), Kind: kind.Kind,
		Resource: "resourceslices", Namespaced: true, Status: true}}}).Config()
	raw := clientOf(t, cluster, scheme)
	write := func(name, amount string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"resources": map[string]any{
			"cpu": amount, "memory": "1Gi"}}}}
		o.SetGroupVersionKind(kind)
		o.SetNamespace("default")
		o.SetName(name)
		if err := raw.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	write("a-fine", "1e2")
	first := write("b-slow", slow)
	write("c-fine", "2")

	var checked Checked
	config := checked.Wrap(cluster)
	one := &authv1beta1.ResourceSlice{}
	c := clientOf(t, config, scheme)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(first), one); err != nil || read(one) != "0 1Gi" {
		t.Errorf("it is read as %s, %v", read(one), err)
	}
	known, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = known.Start(ctx) }()
	awaitCache(t, known, "a-fine 100 1Gi, b-slow 0 1Gi, c-fine 2 1Gi")
	second := write("d-slow", strings.Repeat("1", 33))
	awaitCache(t, known, "a-fine 100 1Gi, b-slow 0 1Gi, c-fine 2 1Gi, d-slow 0 1Gi")

	names := func() (all []string) {
		problems, err := checked.Problems(t.Context(), c)
		if err != nil {
			t.Error(err)
		}
		for _, p := range problems {
			if p.Code != health.AmountUnreadable.Code || !strings.Contains(p.Detail, "spec.resources.cpu: ") || p.Remedy == "" {
				t.Errorf("%+v", p)
			}
			all = append(all, p.Subject)
		}
		return all
	}
	if got := fmt.Sprint(names()); got != "[ResourceSlice default/b-slow ResourceSlice default/d-slow]" {
		t.Error(got)
	}
	if err := raw.Delete(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(names(), names()); got != "[ResourceSlice default/b-slow] [ResourceSlice default/b-slow]" {
		t.Error(got)
	}
}

func clientOf(t *testing.T, config *rest.Config, scheme *runtime.Scheme) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func read(s *authv1beta1.ResourceSlice) string {
	cpu, memory := s.Spec.Resources[corev1.ResourceCPU], s.Spec.Resources[corev1.ResourceMemory]
	return cpu.String() + " " + memory.String()
}

// awaitCache waits until an informer knows these slices.
func awaitCache(t *testing.T, known cache.Cache, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for got := ""; ; time.Sleep(10 * time.Millisecond) {
		var list authv1beta1.ResourceSliceList
		err := known.List(ctx, &list)
		var all []string
		for _, s := range list.Items {
			all = append(all, s.Name+" "+read(&s))
		}
		slices.Sort(all)
		if got = strings.Join(all, ", "); got == want {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the informer knows %s, %v", got, err)
		}
	}
}

// Everything else in an answer stays as it is, to the byte.
func TestAnswersStayAsTheyAre(t *testing.T) {
	k := kinds()[schema.GroupResource{Group: "authentication.liqo.io", Resource: "resourceslices"}]
	for in, want := range map[string]string{
		`{"spec":{"resources":{"cpu":"1","a":1e2}}}`:                                        "",
		`{"metadata":{"labels":{"a":"1e9999"}},"spec":{"class":"1e9999","resources":{}}}`:   "",
		`{"spec":{"resources":{"cpu" : "1e999" , "memory":"1"}}}`:                           `{"spec":{"resources":{"cpu" : "0" , "memory":"1"}}}`,
		`{"spec":{"resources":{"cpu":1e999}}}`:                                              `{"spec":{"resources":{"cpu":"0"}}}`,
		`{"items":[{},{"status":{"resources":{"cpu":"1\u0065999"}}},{"x":[{}]}]}`:           `{"items":[{},{"status":{"resources":{"cpu":"0"}}},{"x":[{}]}]}`,
		`{"type":"ADDED","object":{"status":{"resources":{"a":"1e-999","b":"x","c":"1"}}}}`: `{"type":"ADDED","object":{"status":{"resources":{"a":"0","b":"0","c":"1"}}}}`,
		`{"spec":{"resources":null},"status":{"resources":{"a":null,"b":{"c":"1e999"}}}}`:   "",
		`{"spec":{"resources":{"cpu":"1"},"resources":{"cpu":"1e999"}}}`:                    `{"spec":{"resources":{"cpu":"1"},"resources":{"cpu":"0"}}}`,
	} {
		if want == "" {
			want = in
		}
		var c Checked
		body := &checkedBody{values: json.NewDecoder(strings.NewReader(in + "\n" + in)), check: func(value []byte) ([]byte, error) {
			return c.check(k, "resourceslices", value)
		}}
		got, err := io.ReadAll(body)
		if err != nil || !bytes.Equal(got, []byte(want+"\n"+want+"\n")) {
			t.Errorf("%s becomes %s, %v", in, got, err)
		}
	}
}

// The kinds with amounts are those of Liqo's CRDs, under the names that the API server serves them by.
func TestKindsAreThoseOfTheCRDs(t *testing.T) {
	files := liqotest.CRDs(t, "*.yaml")
	if len(files) < 20 {
		t.Fatalf("%d CRDs", len(files))
	}
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Group string `json:"group"`
				Names struct {
					Plural string `json:"plural"`
				} `json:"names"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		_, known := kinds()[schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}]
		if has := bytes.Contains(text, []byte("[numkMGTPE]")); has != known {
			t.Errorf("%s.%s has amounts: %t, is looked at: %t", crd.Spec.Names.Plural, crd.Spec.Group, has, known)
		}
		if known {
			found++
		}
	}
	if found != len(kinds()) {
		t.Errorf("%d of %v are in the CRDs", found, kinds())
	}
}

func TestResourceIn(t *testing.T) {
	for path, want := range map[string]string{
		"/apis/offloading.liqo.io/v1beta1/shadowpods":                           "shadowpods.offloading.liqo.io",
		"/apis/offloading.liqo.io/v1beta1/namespaces/a/shadowpods/b/status":     "shadowpods.offloading.liqo.io",
		"/k8s/clusters/c-1/apis/offloading.liqo.io/v1beta1/namespaces/a/quotas": "quotas.offloading.liqo.io",
		"/api/v1/namespaces/a/pods":                                             "",
		"/apis":                                                                 "",
	} {
		if got := resourceIn(path).String(); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}
