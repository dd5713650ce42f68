package match_test

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/match"
)

var update = flag.Bool("update", false, "write the evaluations that come out into testdata/decide")

// TestDecide reads the catalogue of decisions: each file is a federation (see cluster in
// help_test.go), the request of one of its members, and the evaluation that comes out.
func TestDecide(t *testing.T) {
	golden(t, "testdata/decide", []string{"clusters.yaml", "request.yaml", "evaluation.yaml"}, evaluate)
}

// golden reads the files of a folder: of each, the first two parts and what comes of them, which
// must be the third.
func golden(t *testing.T, dir string, parts []string, of func(t *testing.T, first, second []byte) []byte) {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i, name := range parts {
				if len(archive.Files) != len(parts) || archive.Files[i].Name != name {
					t.Fatalf("want the files %v", parts)
				}
			}
			got := of(t, archive.Files[0].Data, archive.Files[1].Data)
			if *update {
				archive.Files[2].Data = got
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := archive.Files[2].Data; !bytes.Equal(got, want) {
				t.Errorf("want -, got +; run with -update if it should be so\n%s", cmp.Diff(string(want), string(got)))
			}
		})
	}
}

func evaluate(t *testing.T, clusters, request []byte) []byte {
	t.Helper()
	var federation map[string]cluster
	var asked struct {
		Consumer string      `json:"consumer"`
		Request  api.Request `json:"request"`
	}
	for _, in := range []struct {
		data []byte
		to   any
	}{{clusters, &federation}, {request, &asked}} {
		if err := yaml.UnmarshalStrict(in.data, in.to); err != nil {
			t.Fatal(err)
		}
	}
	engine := match.New()
	a, err := engine.Ask(asked.Consumer, asked.Request)
	if err != nil {
		t.Fatal(err)
	}
	out, err := yaml.Marshal(engine.Evaluate(viewOf(t, federation), a, now))
	if err != nil {
		t.Fatal(err)
	}
	backwards := slices.Sorted(maps.Keys(federation))
	slices.Reverse(backwards)
	other, err := yaml.Marshal(engine.Evaluate(viewOf(t, federation, backwards...), a, now))
	if err != nil || !bytes.Equal(out, other) {
		t.Errorf("the order of clusters shows: %v\n%s", err, cmp.Diff(string(out), string(other)))
	}
	return out
}
