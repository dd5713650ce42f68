package cli

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
)

// A session of the wizard: what a flag answers is not asked, what cannot be is asked again, and
// what is left empty shares nothing.
func TestInitAsks(t *testing.T) {
	for name, c := range map[string]struct {
		flags   []string
		answers []string
		asked   int
		want    []string
		sharing *api.Sharing
	}{
		"all left empty": {answers: []string{"", "", "", "r/bourse:1", "", ""}, asked: 6},
		"all answered": {
			answers: []string{"maybe", "n", "Rome!", "rome", "", "", "r/bourse:1", "half", "120", "50%", "cpu",
				"cpu=16, memory=64Gi", "Oslo?", "oslo, milan", "consumer.", `consumer.region == "eu"`, "rome", "https://rome:7444"},
			asked: 18, want: []string{"--cluster-id=rome", "--connector-url=https://rome:7444", "--without-liqo"},
			sharing: &api.Sharing{Terms: api.Terms{VisibleTo: api.Audience{Clusters: []string{"oslo", "milan"}},
				Allow: `consumer.region == "eu"`},
				Pools: []api.PoolPolicy{{Name: api.GeneralPool, Percentage: new(int32(50)),
					Caps: api.Resources{"cpu": resource.MustParse("16"), "memory": resource.MustParse("64Gi")}}}},
		},
		"a hub": {
			flags:   []string{"--hub=cpu=400,memory=1600Gi", "--cluster-id=hub"},
			answers: []string{"", "", "r/bourse:1", "", "", "", ""}, asked: 7,
			want: []string{"--cluster-id=hub"},
			sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool, VirtualNodes: &api.VirtualNodes{
				Selector: api.VirtualNodeSelector{MatchLabels: map[string]string{"bourse.dev/virtual-node-pool": "upstream"}}}}}},
		},
		"what no flag answers": {
			flags: []string{"--without-liqo", "--cluster-id=rome", "--join=",
				"--share=10", "--cap=cpu=1"}, answers: []string{"r/bourse:1", "", "", ""}, asked: 4,
			want: []string{"--cluster-id=rome", "--without-liqo"},
			sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool,
				Percentage: new(int32(10)), Caps: api.Resources{"cpu": resource.MustParse("1")}}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, out := &start{}, &bytes.Buffer{}
			flags := s.flags()
			if err := flags.Parse(c.flags); err != nil {
				t.Fatal(err)
			}
			if err := s.ask(t.Context(), bufio.NewReader(strings.NewReader(strings.Join(c.answers, "\n")+"\n")),
				out, flags); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got := strings.Count(out.String(), "? "); got != c.asked {
				t.Errorf("%d questions, want %d:\n%s", got, c.asked, out)
			}
			i, err := s.installation()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, i.Args); diff != "" || i.Image != "r/bourse:1" {
				t.Error(i.Image, diff)
			}
			if diff := cmp.Diff(c.sharing, i.Sharing); diff != "" {
				t.Error(diff)
			}
		})
	}
	for flag, with := range map[string][]string{
		"--share":      {"--hub=cpu=8", "--share=5"},
		"--hub":        {"--hub=cpu=8", "--without-liqo", "--cluster-id=rome"},
		"--cluster-id": {"--hub=cpu=8", "--cluster-id=" + strings.Repeat("h", 42)},
		"cpu=\"-8\"":   {"--hub=cpu=-8"},
	} {
		s := &start{}
		err := s.flags().Parse(with)
		if err == nil {
			_, err = s.installation()
		}
		if api.CodeOf(err) != api.CodeInvalid || !strings.Contains(err.Error(), flag) {
			t.Errorf("%v: %v", with, err)
		}
	}
	s := &start{}
	if err := s.ask(t.Context(), bufio.NewReader(strings.NewReader("y\n")),
		&bytes.Buffer{}, s.flags()); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("an answer that never comes: %v", err)
	}
}
