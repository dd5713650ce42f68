package robustness

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal/postgres/postgrestest"
)

// startPostgres runs a server for one test, which may kill it. Such a test does not run beside
// those without one: they would share a disk, and under what is slow for that they test little.
func startPostgres(t *testing.T) *postgrestest.Server {
	t.Helper()
	server, err := postgrestest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// ends waits until a process ends by itself, with an exit code that says so and a word of why.
func (b *process) ends(why string) {
	b.t.Helper()
	l := b.life
	select {
	case <-l.ended:
	case <-time.After(patience):
		b.t.Errorf("the broker goes on:\n%s", l.said())
		b.kill()
		return
	}
	b.life = nil
	if code := l.cmd.ProcessState.ExitCode(); code <= 0 || !strings.Contains(l.said(), why) {
		b.t.Errorf("exit code %d, want one that says no, and %q:\n%s", code, why, l.said())
	}
}

// standby starts a second broker on the database of another, which knows its CA, and waits until it
// stands by.
func (b *process) standby() *process {
	b.t.Helper()
	other := newProcess(b.t)
	other.store = b.store
	if err := os.CopyFS(filepath.Join(other.dir, "data", "ca"), os.DirFS(filepath.Join(b.dir, "data", "ca"))); err != nil {
		b.t.Fatal(err)
	}
	l := other.launch()
	eventually(b.t, "the second broker stands by",
		func(context.Context) bool { return strings.Contains(l.said(), "broker stands by") })
	return other
}

// leads waits until a broker that stood by leads.
func (b *process) leads() {
	b.t.Helper()
	select {
	case <-b.life.serves:
	case <-b.life.ended:
		b.t.Fatalf("the standby ended:\n%s", b.life.said())
	case <-time.After(patience):
		b.t.Fatalf("the standby does not lead:\n%s", b.life.said())
	}
}

// instead lets members that know the address of one broker reach another, as a Service does.
func (b *process) instead(of *process) {
	b.t.Helper()
	l, err := net.Listen("tcp", of.address)
	if err != nil {
		b.t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", b.address)
			if err != nil {
				in.Close()
				continue
			}
			all.Go(func() { defer out.Close(); _, _ = io.Copy(out, in) })
			all.Go(func() { defer in.Close(); _, _ = io.Copy(in, out) })
		}
	})
	b.t.Cleanup(func() {
		l.Close()
		b.kill() // which ends what is forwarded
		all.Wait()
	})
}

// A broker that starts beside the leader reports that it waits. It takes over with all acknowledged events when the
// leader is killed, or stalls for long. The stalled one finds that it may no longer write, and ends.
func TestStandbyTakesOver(t *testing.T) {
	for name, fail := range map[string]func(*process){
		"killed": func(b *process) { b.kill() },
		"still":  func(b *process) { _ = b.life.cmd.Process.Signal(syscall.SIGSTOP) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startPostgres(t)
			first := newProcess(t)
			_, first.store = server.Schema(t)
			first.start()
			l := newLoad(first, 3, 2, cpu(18_000))
			second := first.standby()
			second.showsStandby()
			stranger := newProcess(t)
			stranger.store = first.store
			if said := stranger.refused(); !strings.Contains(said, "copy the folder ca") {
				t.Errorf("a standby that members do not know says:\n%s", said)
			}

			l.offer()
			trade, stop := context.WithCancel(t.Context())
			defer stop()
			failed := make(chan struct{})
			time.AfterFunc(500*time.Millisecond, func() {
				defer close(failed)
				l.waitFor(12)
				fail(first)
				second.leads()
				stop()
			})
			l.run(trade)
			<-failed
			if t.Failed() {
				return
			}
			if first.life != nil {
				_ = first.life.cmd.Process.Signal(syscall.SIGCONT)
				first.ends("another broker")
			}
			second.instead(first)
			l.offer()
			l.verify(second)
			if len(l.deals) < 10 {
				t.Errorf("%d reservations: nothing was tested", len(l.deals))
			}
		})
	}
}

// showsStandby demands that a standby is alive, not ready, and refuses every call in a way that says why.
func (b *process) showsStandby() {
	b.t.Helper()
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true}}
	for _, probe := range []struct {
		url, says string
		status    int
	}{
		{"http://" + b.metrics + "/livez", "standby", http.StatusOK},
		{"http://" + b.metrics + "/readyz", "standby: another broker leads", http.StatusServiceUnavailable},
		{"https://" + b.address + api.Prefix + "/clusters", "this broker stands by", http.StatusServiceUnavailable},
	} {
		response, err := insecure.Get(probe.url)
		if err != nil {
			b.t.Error(err)
			continue
		}
		said, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != probe.status || !strings.Contains(string(said), probe.says) {
			b.t.Errorf("%s answers %s: %s", probe.url, response.Status, said)
		}
		if strings.HasPrefix(probe.url, "https") && response.Header.Get("Retry-After") == "" {
			b.t.Errorf("%s does not say when to come back", probe.url)
		}
	}
	if out, err := b.bourse("broker", "members"); err == nil ||
		!strings.Contains(out, "Unavailable: this broker stands by") {
		b.t.Errorf("members of a standby: %v: %s", err, out)
	}
}
