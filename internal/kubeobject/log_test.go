package kubeobject_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// Info lines of the libraries are Debug lines. Warnings and errors stay what they are.
func TestQuietLog(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(kubeobject.QuietLog(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}))).With("a",
		1).WithGroup("g")
	log.Info("Starting EventSource")
	log.Warn("slow")
	if got := out.String(); strings.Contains(got, "EventSource") || !strings.Contains(got, "level=WARN msg=slow a=1") {
		t.Errorf("it logs %s", got)
	}
}
