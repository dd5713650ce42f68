package server_test

import (
	"bytes"
	"flag"
	"log/slog"
	"os"
	"testing"

	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

var update = flag.Bool("update", false, "write docs/openapi.yaml")

// The committed descriptions of the broker's API and of the agent's are those of the code.
func TestOpenAPI(t *testing.T) {
	checkDescription(t, "../../docs/openapi.yaml", servertest.Start(t, servertest.Options{}).Server)
	checkDescription(t, "../../docs/openapi-agent.yaml", server.Local(nil, nil, 1, slog.New(slog.DiscardHandler)))
}

func checkDescription(t *testing.T, file string, s *server.Server) {
	t.Helper()
	described, err := s.OpenAPI()
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
