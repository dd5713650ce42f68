package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// vague are names of locals and fields that do not say what they hold. The glossary has the words: record for a
// reservation of the Ledger, shown for one of a broker.
var vague = []string{"ours", "theirs", "one", "heard", "said"}

// vagueUntilRewritten are the files of the two halves of a reservation, which are rewritten as pure decisions one day.
// The list may only shrink.
var vagueUntilRewritten = []string{
	"internal/agent/consumer/requests/change.go",
	"internal/agent/consumer/requests/end.go",
	"internal/agent/consumer/requests/hold.go",
	"internal/agent/consumer/requests/record.go",
	"internal/agent/consumer/requests/restore.go",
	"internal/agent/federation/session/decide.go",
	"internal/agent/provider/gate/admit.go",
	"internal/agent/provider/gate/answer.go",
	"internal/agent/provider/gate/approve.go",
	"internal/agent/provider/gate/check.go",
	"internal/agent/provider/gate/reclaim.go",
	"internal/agent/provider/gate/restore.go",
	"internal/agent/reservations/sync.go",
}

// Names say what a variable holds.
func TestNamesSayWhatTheyHold(t *testing.T) {
	found := map[string]bool{}
	for _, p := range packages(t) {
		if strings.HasPrefix(p.ImportPath, module+"test") {
			continue
		}
		for _, name := range p.GoFiles {
			path := strings.TrimPrefix(p.ImportPath, module) + "/" + name
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && slices.Contains(vague, id.Name) {
					found[path] = true
					if !slices.Contains(vagueUntilRewritten, path) {
						t.Errorf("%s: a name is %q", path, id.Name)
					}
				}
				return true
			})
		}
	}
	for _, path := range vagueUntilRewritten {
		if !found[path] {
			t.Errorf("%s has no such name any more: take it out of the list", path)
		}
	}
}
