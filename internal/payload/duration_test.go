package payload_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/internal/payload"
)

func TestDurationsMayHaveDays(t *testing.T) {
	for text, want := range map[string]time.Duration{"90m": 90 * time.Minute, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour,
		"-1d": -24 * time.Hour} {
		if got, err := payload.ParseDuration(text); err != nil || got != want {
			t.Errorf("%s is %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "2", "d", "2d3", "123456d", "1h2d", "soon"} {
		if got, err := payload.ParseDuration(text); err == nil {
			t.Errorf("%q is taken for %s", text, got)
		}
	}
}
