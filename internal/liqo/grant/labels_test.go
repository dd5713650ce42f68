package grant

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/api"
)

// The virtual node has the architecture of a provider that has one. Any other has Liqo's amd64, also if it had one
// before. A provider that has no card yet keeps its label.
func TestLabelsOfArchitecture(t *testing.T) {
	for _, c := range []struct {
		has          []string
		before, want string
	}{
		{[]string{"arm64"}, "", "arm64"}, {[]string{"amd64", "arm64"}, "", ""}, {nil, "", ""},
		{[]string{"amd64", "arm64"}, "arm64", "amd64"}, {[]string{"amd64"}, "arm64", "amd64"}, {nil, "arm64", "arm64"},
	} {
		g := &Granter{Cluster: "milan", Properties: func() api.Properties {
			return api.Properties{Region: "eu", Architectures: c.has}
		}}
		before := map[string]string{}
		if c.before != "" {
			before[corev1.LabelArchStable] = c.before
		}
		got := g.labels(Owed{Pool: "general"}, before)
		if got[corev1.LabelArchStable] != c.want || got[corev1.LabelTopologyRegion] != "eu" || got[PoolLabel] != "general" {
			t.Errorf("%v after %q: %v", c.has, c.before, got)
		}
	}
}
