package arch

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
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
