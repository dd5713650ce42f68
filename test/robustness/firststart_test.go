package robustness

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A broker that was killed anywhere in its very first start, while it makes its journal, its CA and its
// operator's certificate, starts the next time as if nothing had been.
func TestKilledInItsFirstStart(t *testing.T) {
	t.Parallel()
	for i := range 12 {
		b := newProcess(t)
		l := b.launch()
		select {
		case <-time.After(time.Duration(i) * 10 * time.Millisecond):
		case <-l.serves:
		}
		b.kill()
		b.start()
		usable(b)
		b.kill()
	}
}

// The operator's certificate is three files: a start that made only some of them is finished by the next.
func TestOperatorFolderIsFinished(t *testing.T) {
	t.Parallel()
	b := newProcess(t)
	b.start()
	b.stop()
	if err := os.Remove(filepath.Join(b.dir, "data", "operator", "tls.crt")); err != nil {
		t.Fatal(err)
	}
	b.start()
	usable(b)
}

// usable demands that members can join and operators have their certificate.
func usable(b *process) {
	b.t.Helper()
	b.join("rome")
	for _, file := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if _, err := os.Stat(filepath.Join(b.dir, "data", "operator", file)); err != nil {
			b.t.Error(err)
		}
	}
	if out, err := b.bourse("broker", "members", "-o", "name"); err != nil || out != "rome\n" {
		b.t.Errorf("broker members: %v: %s", err, out)
	}
}
