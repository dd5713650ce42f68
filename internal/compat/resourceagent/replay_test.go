package resourceagent_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/resourceagent"
)

var update = flag.Bool("update", false, "write the answers into testdata")

// Each file is a story of calls, as the prototypes document them, and what they are answered. A
// step is a line: who, the method and the path, and the body beneath it; or what somebody else does
// meanwhile.
func TestReplay(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txtar")
	if len(files) == 0 {
		t.Fatal("no stories")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			have := must(os.ReadFile(file))(t)
			story := txtar.Parse(have)
			replay(t, story)
			if *update {
				if err := os.WriteFile(file, txtar.Format(story), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if now := txtar.Format(story); !bytes.Equal(now, have) {
				t.Errorf("%s", now)
			}
		})
	}
}

func replay(t *testing.T, story *txtar.Archive) {
	patience := impatient // where nobody accepts, to wait changes nothing
	if slices.ContainsFunc(story.Files, func(f txtar.File) bool { return strings.HasSuffix(f.Name, " accepts") }) {
		patience = func(o *resourceagent.Options) { o.Wait = time.Minute }
	}
	w := newTestFederation(t, patience)
	ids := map[string]string{}
	for i, step := range story.Files {
		words := strings.Fields(step.Name)
		switch {
		case words[0] == "approve":
			w.approve(words[1])
		case len(words) == 2 && words[1] == "accepts":
			w.accepts(w.members[words[0]])
		case len(words) >= 3 && words[1] == "lends":
			trust := api.TrustLevel("")
			if len(words) == 4 {
				trust = api.TrustLevel(words[3])
			}
			w.member(words[0], words[2], trust)
		case len(words) == 3 && words[1] == "reserves":
			must(w.reserves(w.members[words[0]], words[2]))(t)
		case step.Name != "answer":
			body, path := string(step.Data), words[2]
			for real, name := range ids {
				path = strings.ReplaceAll(path, name, real)
			}
			status, got := w.call(w.agent(words[0]), words[1], path, body)
			story.Files[i+1].Data = fmt.Appendf(nil, "%d\n%s", status, steady(t, got, ids))
		}
	}
}

var (
	reservationID = regexp.MustCompile(`r-[a-z2-7]{16}`)
	incarnation   = regexp.MustCompile(`"incarnation": \d+,\s+"number": \d+`)
	instant       = regexp.MustCompile(`"20\d\d-\d\d-\d\dT[^"]*"`)
)

// steady is an answer, indented, without what differs from time to time.
func steady(t *testing.T, answer string, ids map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	if answer != "" && json.Indent(&b, []byte(answer), "", "  ") != nil {
		return answer + "\n"
	}
	out := instant.ReplaceAllString(strings.TrimSpace(b.String()), `"TIME"`)
	out = incarnation.ReplaceAllString(out, `"incarnation": 1, "number": 1`)
	out = reservationID.ReplaceAllStringFunc(out, func(id string) string {
		if ids[id] == "" {
			ids[id] = fmt.Sprintf("RESERVATION-%d", len(ids)+1)
		}
		return ids[id]
	})
	return out + "\n"
}
