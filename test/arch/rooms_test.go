package arch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// record is the record of the decision, which has the table of the agent's packages.
const record = "../../docs/adr/0001-rooms-of-the-agent.md"

// wings are the folders of internal/agent from the ground up. A package of a wing imports only packages of its own
// wing and of those in earlier lines. What stands beside the wings is held by the table alone.
var wings = [][]string{
	{"federation"},
	{"consumer", "provider", "peering"},
	{"operations"},
}

// readRooms returns the packages that each package below internal/agent may import of the others, as the
// table of the record says.
func readRooms(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	rooms := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 5 || !strings.HasPrefix(cells[0], "`") || cells[0] == "`internal/agent`" {
			continue
		}
		room := strings.Trim(cells[0], "`")
		rooms[room] = nil
		if cells[4] != "–" {
			rooms[room] = strings.Split(cells[4], ", ")
		}
	}
	if len(rooms) == 0 {
		t.Fatalf("%s has no table", record)
	}
	return rooms
}

func TestRoomsImportOnlyTheRoomsOfTheTable(t *testing.T) {
	rooms, found := readRooms(t), 0
	for _, p := range packages(t) {
		room, ok := strings.CutPrefix(p.ImportPath, module+"internal/agent/")
		if !ok {
			continue
		}
		found++
		allowed, known := rooms[room]
		if !known {
			t.Errorf("%s is not in the table of rooms: add it in %s", p.ImportPath, record)
		}
		for _, imported := range p.Imports {
			if imported == module+"internal/agent" {
				t.Errorf("room %s imports internal/agent, which wires the rooms", room)
			}
			if other, ok := strings.CutPrefix(imported, module+"internal/agent/"); ok && !slices.Contains(allowed, other) {
				t.Errorf("room %s imports room %s, which the table does not allow", room, other)
			}
		}
		if tests, err := filepath.Glob(filepath.Join(p.Dir, "*_test.go")); err != nil || len(tests) == 0 {
			t.Errorf("room %s has no tests that construct it alone", room)
		}
	}
	if found != len(rooms) {
		t.Errorf("there are %d rooms, and the table has %d", found, len(rooms))
	}
}

// The table itself allows no circle, and no import from an earlier wing of a later one.
func TestTheTableOfRoomsHasNoCircle(t *testing.T) {
	rooms := readRooms(t)
	var visit func(room string, path []string)
	visit = func(room string, path []string) {
		if slices.Contains(path, room) {
			t.Fatalf("circle: %s", strings.Join(append(path, room), " -> "))
		}
		for _, other := range rooms[room] {
			if _, known := rooms[other]; !known {
				t.Errorf("room %s may import %s, which is no room", room, other)
			}
			from, to := wingOf(room), wingOf(other)
			if from >= 0 && to >= from && wing(room) != wing(other) {
				t.Errorf("room %s may import %s, whose wing does not stand below it", room, other)
			}
			visit(other, append(path, room))
		}
	}
	for room := range rooms {
		visit(room, nil)
	}
}

// wing returns the folder of a room, the room itself if that is the folder.
func wing(room string) string { folder, _, _ := strings.Cut(room, "/"); return folder }

// wingOf returns the line of a room's wing, -1 for a room that stands beside the wings.
func wingOf(room string) int {
	return slices.IndexFunc(wings, func(line []string) bool { return slices.Contains(line, wing(room)) })
}
