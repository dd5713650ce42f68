package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// However long the text is that another party chose, a line of the log is short.
func TestTextsInTheLogAreCut(t *testing.T) {
	long := strings.Repeat("ü", 100_000)
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		log, err := (&logFlags{level: "info", format: format}).logger(&out)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("refused", "error", errors.New(long), "message", long, "short", "stays")
		if out.Len() > 3*maxLogText || !strings.Contains(out.String(), "stays") {
			t.Errorf("%s: a line of %d bytes", format, out.Len())
		}
	}
}
