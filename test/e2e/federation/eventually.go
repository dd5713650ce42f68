package federation

import (
	"context"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/test/lab"
)

// Eventually asks until there is no error any more, and fails the test when that takes longer than
// its patience.
func Eventually(t testing.TB, patience time.Duration, what string, ask func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // cleanups wait too: t's own is over by then
	defer cancel()
	var last error
	delay := lab.Polls.DelayFunc()
	for begin := time.Now(); ; {
		err := ask(ctx)
		if err == nil {
			if took := time.Since(begin); took > 5*time.Second {
				t.Logf("%s: after %s", what, took.Round(time.Second))
			}
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-time.After(delay()):
		case <-ctx.Done():
			t.Fatalf("after %s still not: %s: %v", patience, what, last)
		}
	}
}
