package posture

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// What the policies are told of a consumer: what nobody says any more stays as it was, what it no
// longer has goes, and nothing of another consumer's is touched.
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
	yes, no := &Demands{Limits: true}, &Demands{Annotations: []string{"a.example/x", "b.example/y"}, Namespaces: 500}
	says(p.List(t.Context(), "rome", nil, nil), map[string]string{"rome.at": "milan", "rome": "brokered"})
	says(p.List(t.Context(), "rome", yes, nil), map[string]string{"rome.at": "milan", "rome": "brokered, limits"})
	says(p.List(t.Context(), "rome", nil, nil), map[string]string{"rome.at": "milan", "rome": "brokered, limits"})

	fast := Slice{Name: "fast", CSR: 7, User: "user-f", Placement: &PodPlacement{Nodes: map[string]string{"y": "2", "x": "1"},
		Tolerates: []string{"gpu"}, StorageClasses: []string{"disk", "ssd"}, RuntimeClasses: []string{"nvidia"}}}
	slow := Slice{Name: "slow", CSR: 8, User: "user-s", Placement: &PodPlacement{}}
	all := map[string]string{
		"rome.at": "milan", "rome": "brokered, limits", "rome.slices": "fast=7,slow=8", "user-f.of": "rome", "user-f.nodes": "x=1,y=2", "user-f.tolerates": "gpu", "user-f.storage": "disk,ssd", "user-f.runtimes": "nvidia", "user-s.of": "rome",
	}
	says(p.List(t.Context(), "rome", nil, []Slice{fast, slow}), maps.Clone(all))
	fast.Placement, slow.Placement = nil, nil // the SharingPolicy is gone, or not valid
	says(p.List(t.Context(), "rome", nil, []Slice{fast, slow}), all)
	says(p.List(t.Context(), "rome", nil, []Slice{slow}),
		map[string]string{"rome.at": "milan", "rome": "brokered, limits", "rome.slices": "slow=8", "user-s.of": "rome"})
	says(p.List(t.Context(), "rome", no, []Slice{slow}), map[string]string{"rome.at": "milan",
		"rome": "brokered", "rome.namespaces": "500", "rome.annotations": "a.example/x,b.example/y", "rome.slices": "slow=8", "user-s.of": "rome"})
	says(p.Unlist(t.Context(), "rome"), map[string]string{})
}

// Each consumer is told which others have IDs that end like its own, also those that come and go later.
func TestOthersThatEndLikeIt(t *testing.T) {
	p, data := listed(t)
	for _, id := range []string{"rome", "x-rome", "y-x-rome", "romex", "oslo"} {
		if err := p.List(t.Context(), id, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	ofOthers := func() map[string]string {
		all := data()
		maps.DeleteFunc(all, func(key, _ string) bool { return !strings.HasSuffix(key, others) })
		return all
	}
	if got, want := ofOthers(), map[string]string{"rome.others": "-x-rome,-y-x-rome",
		"x-rome.others": "-y-x-rome"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if err := p.Unlist(t.Context(), "y-x-rome"); err != nil {
		t.Fatal(err)
	}
	if got, want := ofOthers(), map[string]string{"rome.others": "-x-rome"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if err := p.Unlist(t.Context(), "rome"); err != nil {
		t.Fatal(err)
	}
	if got := ofOthers(); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// The list does not grow beyond what Kubernetes keeps; what is in it goes on, changes and ends.
func TestTheListIsFull(t *testing.T) {
	p, data := listed(t)
	places := &PodPlacement{StorageClasses: []string{strings.Repeat("x", MaxList/4)}}
	for _, id := range []string{"a", "b", "c"} {
		if err := p.List(t.Context(), id, nil, []Slice{{Name: "s", User: "user-" + id, Placement: places}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.List(t.Context(), "d", nil,
		[]Slice{{Name: "s", User: "user-d", Placement: places}}); api.CodeOf(err) != api.CodeCapReached || data()["d"] != "" {
		t.Errorf("%v", err)
	}
	if err := p.List(t.Context(), "a", nil, []Slice{{Name: "s", User: "user-a", Placement: &PodPlacement{}}}); err != nil {
		t.Error(err)
	}
	if err := p.List(t.Context(), "d", nil, []Slice{{Name: "s", User: "user-d", Placement: places}}); err != nil {
		t.Error(err)
	}
	found, err := (&Inspection{Reader: p.Reader, Lends: true, Namespace: "bourse"}).list(t.Context())
	if err != nil || len(found) != 1 || found[0].Code != health.ConsumersCrowded.Code {
		t.Errorf("%v %v", found, err)
	}
	for _, id := range []string{"b", "c", "d"} {
		if err := p.Unlist(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if found, err := (&Inspection{Reader: p.Reader, Lends: true, Namespace: "bourse"}).list(t.Context()); err != nil ||
		len(found) > 0 {
		t.Errorf("%v %v", found, err)
	}
}

// listed are policies with an empty list, and what is in it.
func listed(t *testing.T) (*Policies, func() map[string]string) {
	t.Helper()
	c, err := client.New(kubeapi.New(kubeapi.Options{}).Config(), client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: consumers}}
	if err := c.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return &Policies{Known: c, Reader: c, Writer: c, Namespace: "bourse", Cluster: "milan"}, func() map[string]string {
		var now corev1.ConfigMap
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), &now); err != nil {
			t.Fatal(err)
		}
		return now.Data
	}
}
