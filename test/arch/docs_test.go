package arch

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"

	"github.com/bourse-dev/bourse/api"
)

// Every kind has a commented example in docs/objects, and each example is what its kind allows.
func TestEachKindHasAnExample(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
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
	for _, kind := range []string{"SharingPolicy", "ResourceRequest", "ReservationInstruction", "ProviderInstruction", "Advertisement", "Ledger", "Offer", "Contract"} {
		if !shown[kind] {
			t.Errorf("no example of a %s in docs/objects", kind)
		}
	}
}
