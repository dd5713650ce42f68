package posture

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// What the policies are told of a consumer: what nobody says any more stays as it was, what it no longer has goes, and
// nothing of another consumer's is touched.
func TestConsumers(t *testing.T) {
	c, err := client.New(kubeapi.New(kubeapi.Options{}).Config(), client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	other := map[string]string{"oslo": "brokered", "oslo.slices": "o=1", "user-o.of": "oslo", "user-o.nodes": "a=b"}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: consumers}, Data: maps.Clone(other)}
	if err := c.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	p := &Policies{Known: c, Reader: c, Writer: c, Namespace: "bourse", Cluster: "milan"}
	says := func(err error, want map[string]string) {
		t.Helper()
		if err == nil {
			err = c.Get(t.Context(), client.ObjectKeyFromObject(m), m)
		}
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(want, other)
		if !maps.Equal(m.Data, want) {
			t.Errorf("it says %v, want %v", m.Data, want)
		}
	}
	yes, no := &Demands{Limits: true}, &Demands{Annotations: []string{"a.example/x", "b.example/y"}}
	says(p.List(t.Context(), "rome", nil, nil), map[string]string{"rome.at": "milan", "rome": "brokered"})
	says(p.List(t.Context(), "rome", yes, nil), map[string]string{"rome.at": "milan", "rome": "brokered, limits"})
	says(p.List(t.Context(), "rome", nil, nil), map[string]string{"rome.at": "milan", "rome": "brokered, limits"})

	fast := Slice{Name: "fast", CSR: 7, User: "user-f", Places: &Places{Nodes: map[string]string{"y": "2", "x": "1"}, Tolerates: []string{"gpu"}, StorageClasses: []string{"disk", "ssd"}, RuntimeClasses: []string{"nvidia"}}}
	slow := Slice{Name: "slow", CSR: 8, User: "user-s", Places: &Places{}}
	all := map[string]string{
		"rome.at": "milan", "rome": "brokered, limits", "rome.slices": "fast=7,slow=8", "user-f.of": "rome", "user-f.nodes": "x=1,y=2", "user-f.tolerates": "gpu", "user-f.storage": "disk,ssd", "user-f.runtimes": "nvidia", "user-s.of": "rome",
	}
	says(p.List(t.Context(), "rome", nil, []Slice{fast, slow}), maps.Clone(all))
	fast.Places, slow.Places = nil, nil // the SharingPolicy is gone, or not valid
	says(p.List(t.Context(), "rome", nil, []Slice{fast, slow}), all)
	says(p.List(t.Context(), "rome", nil, []Slice{slow}), map[string]string{"rome.at": "milan", "rome": "brokered, limits", "rome.slices": "slow=8", "user-s.of": "rome"})
	says(p.List(t.Context(), "rome", no, []Slice{slow}), map[string]string{"rome.at": "milan", "rome": "brokered", "rome.annotations": "a.example/x,b.example/y", "rome.slices": "slow=8", "user-s.of": "rome"})
	says(p.Unlist(t.Context(), "rome"), map[string]string{})
}
