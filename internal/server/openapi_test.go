package server_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/bourse-dev/bourse/internal/server/servertest"
)

var update = flag.Bool("update", false, "write docs/openapi.yaml")

// The committed description of the API is that of the code.
func TestOpenAPI(t *testing.T) {
	const file = "../../docs/openapi.yaml"
	described, err := servertest.Start(t, servertest.Options{}).Server.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, described, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(committed, described) {
		t.Errorf("%s is stale (%v): run go test ./internal/server -run TestOpenAPI -update", file, err)
	}
}
