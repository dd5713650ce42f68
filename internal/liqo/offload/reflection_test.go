package offload

import (
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
)

// What a virtual kubelet copies is read from its arguments. What they do not say is copied.
func TestReadReflect(t *testing.T) {
	everything := api.Reflect{Secrets: api.ReflectAll, ConfigMaps: api.ReflectAll, Services: api.ReflectAll}
	for text, want := range map[string]api.Reflect{
		"": everything,
		"--secret-reflection-workers=1 --secret-reflection-type=AllowList": {
			Secrets: api.ReflectAllowList, ConfigMaps: api.ReflectAll, Services: api.ReflectAll},
		"--secret-reflection-workers=0 --secret-reflection-type=DenyList": {
			Secrets: api.ReflectNone, ConfigMaps: api.ReflectAll, Services: api.ReflectAll},
		"--secret-reflection-type=AllowList --secret-reflection-type DenyList": everything,
		"--secret-reflection-workers=many --secret-reflection-type=allowlist":  everything,
		"--service-reflection-workers=0":                                       everything, // EndpointSlices go
		"--service-reflection-workers=0 --endpointslice-reflection-workers=0 --configmap-reflection-type=AllowList": {
			Secrets: api.ReflectAll, ConfigMaps: api.ReflectAllowList, Services: api.ReflectNone},
	} {
		if got := readReflect(strings.Fields(text)); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

// For all wishes: a further virtual node copies no more than what is there, and no more than is wished; a namespace
// is admitted just where no kind of object is copied that it does not allow.
func TestReflectionNeverBecomesLaxer(t *testing.T) {
	var all []api.Reflect
	for _, s := range byStrictness {
		for _, c := range byStrictness {
			for _, v := range byStrictness {
				all = append(all, api.Reflect{Secrets: s, ConfigMaps: c, Services: v})
			}
		}
	}
	notLaxer := func(a, b api.Reflect) bool {
		order := map[api.ReflectPolicy]int{api.ReflectAll: 0, api.ReflectAllowList: 1, api.ReflectNone: 2}
		return order[a.Secrets] >= order[b.Secrets] && order[a.ConfigMaps] >= order[b.ConfigMaps] &&
			order[a.Services] >= order[b.Services]
	}
	for _, is := range all {
		for _, wished := range all {
			r := Reflection{Reflect: is, Nodes: []string{"n"}}
			if next := r.Laxest(wished); !notLaxer(next, is) || !notLaxer(next, wished) {
				t.Errorf("beside %v, for %v: %v", is, wished, next)
			}
			if admitted := r.Admits("milan", "bank", wished) == nil; admitted != notLaxer(is, wished) {
				t.Errorf("where %v is copied, %v is admitted: %t", is, wished, admitted)
			}
			r.Nodes = nil
			if err := r.Admits("milan", "bank", wished); err != nil || r.Laxest(wished) != wished {
				t.Errorf("the first: %v, %v", r.Laxest(wished), err)
			}
		}
	}
}
