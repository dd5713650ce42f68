package doctor

import (
	"bytes"
	"io/fs"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"

	"github.com/bourse-dev/bourse/config"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// A cluster that serves the agent's kinds is in order. One that lacks a field, or a kind, is told which.
func TestKindsThatAreOlder(t *testing.T) {
	served := func(change func(file string, text []byte) []byte) string {
		t.Helper()
		files, err := fs.Glob(config.Kinds, "crd/*.yaml")
		if err != nil || len(files) < 10 {
			t.Fatal(files, err)
		}
		var types []kubeapi.Type
		for _, file := range files {
			text, err := config.Kinds.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if text = change(file, text); text == nil {
				continue
			}
			kind, err := kubeapi.CustomType(text)
			if err != nil {
				t.Fatal(err)
			}
			types = append(types, kind)
		}
		client, err := discovery.NewDiscoveryClientForConfig(kubeapi.New(kubeapi.Options{Types: types}).Config())
		if err != nil {
			t.Fatal(err)
		}
		found, err := Kinds{OpenAPI: client.OpenAPIV3()}.Find(t.Context())
		if err != nil || len(found) > 1 {
			t.Fatal(found, err)
		}
		if len(found) == 0 {
			return ""
		}
		if found[0].Code != health.CRDsOlder.Code {
			t.Errorf("it is %s", found[0].Code)
		}
		return found[0].Detail
	}
	if got := served(func(_ string, text []byte) []byte { return text }); got != "" {
		t.Errorf("of this version: %s", got)
	}
	got := served(func(file string, text []byte) []byte {
		switch {
		case strings.HasSuffix(file, "peerings.yaml"):
			return bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(" role:"), []byte(" part:")), []byte("- role\n"), []byte("- part\n"))
		case strings.HasSuffix(file, "proposals.yaml"):
			return nil
		}
		return text
	})
	if got != "the API server does not serve Peering.spec.role, Proposal" {
		t.Errorf("of an older version: %s", got)
	}
}
