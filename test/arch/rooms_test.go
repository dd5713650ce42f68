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
// docs/adr/0001-rooms-of-the-agent.md.
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
	"sharing":       {"route"},
	"peers":         nil,
	"liqowatch":     {"peeraddress"},
	"handshake":     nil,
	"usage":         nil,
	"lending":       {"usage"},
	"borrowing":     nil,
	"peering":       nil,
	"pools":         nil,
	"gate":          {"route"},
	"requests":      nil,
	"connector":     nil,
	"sellers":       {"brokersession", "peeraddress", "route"},
	"brokers":       {"enrollment", "brokersession", "route"},
	"reservations":  {"brokersession", "gate", "requests"},
	"doctor":        {"brokersession", "peeraddress", "scheme", "sharing"},
	"monitoring":    {"brokersession", "catalogcache", "doctor", "usage"},
	"localapi":      {"catalogcache", "brokersession", "requests", "route"},
	"lifecycle":     nil,
	"settings":      {"connector", "peeraddress", "peers"},
	"liqorooms": {
		"borrowing", "brokersession", "doctor", "handshake", "lending", "lifecycle", "liqowatch", "peeraddress",
		"peering", "peers", "pools", "settings", "sharing", "usage",
	},
}

const (
	roomLines    = 300 // of one file, tests too
	wiringLines  = 300 // of the files of internal/agent together, without tests
	optionFields = 10  // of each type of a room whose name ends with Options
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
	if found != len(rooms) {
		t.Errorf("there are %d rooms, and the table has %d", found, len(rooms))
	}
}

// The table in the record of the decision is the one above.
func TestTheRecordHasTheTableOfRooms(t *testing.T) {
	text, err := os.ReadFile("../../docs/adr/0001-rooms-of-the-agent.md")
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 5 || !strings.HasPrefix(cells[0], "`") || cells[0] == "`internal/agent`" {
			continue
		}
		room := strings.Trim(cells[0], "`")
		recorded[room] = true
		var imports []string
		if cells[4] != "–" {
			imports = strings.Split(cells[4], ", ")
		}
		slices.Sort(imports)
		if allowed := slices.Sorted(slices.Values(rooms[room])); !slices.Equal(imports, allowed) {
			t.Errorf("the record lets room %s import %q, the table %q", room, imports, allowed)
		}
	}
	for room := range rooms {
		if !recorded[room] {
			t.Errorf("the record has no room %s", room)
		}
	}
}

// internal/agent itself only lists what runs.
func TestTheWiringIsShort(t *testing.T) {
	files, err := filepath.Glob("../../internal/agent/*.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(text), "\n")
	}
	if lines == 0 || lines > wiringLines {
		t.Errorf("internal/agent has %d lines, more than %d", lines, wiringLines)
	}
}

// checkRoomFiles reports files of a room that are too long, and Options with too many fields.
func checkRoomFiles(t *testing.T, room, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(files, func(file string) bool { return strings.HasSuffix(file, "_test.go") }) {
		t.Errorf("room %s has no tests that construct it alone", room)
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
			if !ok || !strings.HasSuffix(spec.Name.Name, "Options") {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok && s.Fields.NumFields() > optionFields {
				t.Errorf("room %s: %s has %d fields, more than %d", room, spec.Name.Name, s.Fields.NumFields(), optionFields)
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
