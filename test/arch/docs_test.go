package arch

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/sim/federation"
)

// Each kind has a commented example in docs/objects that its CRD allows, and the demo serves it.
func TestEachKindHasAnExample(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory,
		scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	files, err := filepath.Glob("../../docs/objects/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no examples", err)
	}
	shown := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			_, kind, err := strict.Decode(document, nil, nil)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			shown[kind.Kind] = true
		}
	}
	served := map[string]bool{}
	for _, kind := range federation.Kinds() {
		served[kind.Kind] = true
	}
	for kind, of := range scheme.KnownTypes(api.GroupVersion) {
		if of.PkgPath() != reflect.TypeFor[api.Offer]().PkgPath() || strings.HasSuffix(kind, "List") {
			continue
		}
		if !served[kind] {
			t.Errorf("federation.Kinds lacks %s, so that the demo does not serve it", kind)
		}
		if !shown[kind] {
			t.Errorf("no example of a %s in docs/objects", kind)
		}
	}
}

// The commands of docs/migrate-catalog.md that read an agent's certificate leave its key to their user alone.
func TestTheDocumentedLoopKeepsTheKey(t *testing.T) {
	text, err := os.ReadFile("../../docs/migrate-catalog.md")
	if err != nil {
		t.Fatal(err)
	}
	loop := regexp.MustCompile(`(?m)(^    .*\n)*^    for part in (.*\n)+?    done\n`).Find(text)
	if loop == nil {
		t.Fatal("there is no such loop")
	}
	dir, bin := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte("#!/bin/sh\necho a2V5\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "umask 022\n"+string(loop))
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	key := filepath.Join(dir, "tls.key")
	read, err := os.ReadFile(key)
	if err != nil || string(read) != "key" {
		t.Fatalf("it reads %q, %v", read, err)
	}
	if is, err := os.Stat(key); err != nil || is.Mode().Perm() != 0o600 {
		t.Errorf("tls.key is %v, %v", is.Mode(), err)
	}
}

// The first screen of README.md leads to the installation.
func TestREADMELeadsToTheInstallation(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if screen := strings.SplitN(string(text), "\n", 26)[:25]; !strings.Contains(strings.Join(screen, "\n"), "(docs/install.md)") {
		t.Error("its first 25 lines do not link docs/install.md")
	}
}

// The files that tell a reservation's whole life can be read in an afternoon.
func TestTheLifeOfAReservationIsReadInAnAfternoon(t *testing.T) {
	const most = 6500 // lines
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, life, _ := strings.Cut(string(text), "\n## The life of a reservation\n")
	life, _, _ = strings.Cut(life, "\n## ")
	files, lines := regexp.MustCompile("`([a-z_/]+\\.go)`").FindAllStringSubmatch(life, -1), 0
	for _, file := range files {
		code, err := os.ReadFile(filepath.Join("../..", file[1]))
		if err != nil {
			t.Error(err)
		}
		lines += bytes.Count(code, []byte("\n"))
	}
	if len(files) < 20 || lines > most {
		t.Errorf("%d files have %d lines, more than %d", len(files), lines, most)
	}
	t.Logf("%d files, %d lines", len(files), lines)
}

// ARCHITECTURE.md is one page, and the list of decisions names each of them.
func TestArchitectureIsOnePage(t *testing.T) {
	const most = 900 // words
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if words := len(strings.Fields(string(text))); err != nil || words > most {
		t.Errorf("it has %d words, more than %d, %v", words, most, err)
	}
	list, err := os.ReadFile("../../docs/adr/README.md")
	if err != nil {
		t.Fatal(err)
	}
	records, err := filepath.Glob("../../docs/adr/0*.md")
	if err != nil || len(records) < 20 {
		t.Fatalf("it finds %d records, %v", len(records), err)
	}
	for _, record := range records {
		if !bytes.Contains(list, []byte("("+filepath.Base(record)+")")) {
			t.Errorf("docs/adr/README.md does not name %s", filepath.Base(record))
		}
	}
}
