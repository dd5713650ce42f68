package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rooms are the packages of the agent and the rooms that each may import. The table is that of
// docs/adr/0001-rooms-of-the-agent.md. Not all of them exist yet.
var rooms = map[string][]string{
	"scheme":        nil,
	"install":       {"scheme"},
	"route":         nil,
	"peeraddress":   nil,
	"brokerswitch":  nil,
	"enrollment":    {"brokerswitch"},
	"catalogcache":  {"route"},
	"ledger":        nil,
	"brokersession": {"route", "brokerswitch"},
	"sharing":       nil,
	"peers":         nil,
	"liqowatch":     {"peeraddress"},
	"handshake":     nil,
	"usage":         nil,
	"lending":       {"usage"},
	"borrowing":     nil,
	"peering":       nil,
	"gate":          nil,
	"requests":      nil,
	"connector":     nil,
	"sellers":       {"brokersession", "peeraddress", "route"},
	"brokers":       {"enrollment", "brokersession", "route"},
	"reservations":  {"brokersession", "gate", "requests"},
	"doctor":        {"brokersession", "peeraddress", "scheme", "sharing"},
	"monitoring":    {"brokersession", "catalogcache", "usage"},
	"localapi":      {"catalogcache", "brokersession", "requests"},
}

const (
	roomLines    = 300 // of one file, tests too
	optionFields = 10  // of the Options of one room
)

func TestRoomsImportOnlyTheRoomsOfTheTable(t *testing.T) {
	found := 0
	for _, p := range packages(t) {
		room, ok := strings.CutPrefix(p.ImportPath, module+"internal/agent/")
		if !ok {
			continue
		}
		found++
		allowed, known := rooms[room]
		if !known {
			t.Errorf("%s is not in the table of rooms: add it here and in docs/adr/0001-rooms-of-the-agent.md", p.ImportPath)
		}
		for _, imported := range p.Imports {
			if imported == module+"internal/agent" {
				t.Errorf("room %s imports internal/agent, which wires the rooms", room)
			}
			if other, ok := strings.CutPrefix(imported, module+"internal/agent/"); ok && !slices.Contains(allowed, other) {
				t.Errorf("room %s imports room %s, which the table does not allow", room, other)
			}
		}
		checkRoomFiles(t, room, p.Dir)
	}
	if found == 0 {
		t.Error("no room was found")
	}
}

// checkRoomFiles reports files of a room that are too long, and Options with too many fields.
func checkRoomFiles(t *testing.T, room, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(text), "\n"); lines > roomLines {
			t.Errorf("room %s: %s has %d lines, more than %d", room, filepath.Base(file), lines, roomLines)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != "Options" {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok && s.Fields.NumFields() > optionFields {
				t.Errorf("room %s: Options have %d fields, more than %d", room, s.Fields.NumFields(), optionFields)
			}
			return true
		})
	}
}

// The table itself has no circle, so that the rooms can be listed in the order of their dependencies.
func TestTheTableOfRoomsHasNoCircle(t *testing.T) {
	var visit func(room string, path []string)
	visit = func(room string, path []string) {
		if slices.Contains(path, room) {
			t.Fatalf("circle: %s", strings.Join(append(path, room), " -> "))
		}
		for _, other := range rooms[room] {
			if _, known := rooms[other]; !known {
				t.Errorf("room %s may import %s, which is no room", room, other)
			}
			visit(other, append(path, room))
		}
	}
	for room := range rooms {
		visit(room, nil)
	}
}
