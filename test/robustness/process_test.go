package robustness

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/test/lab"
	"github.com/bourse-dev/bourse/test/robustness/member"
)

// patience bounds every wait: much longer than anything takes, even on a machine that has more to do. An agent
// looks for its broker again after 45 s at the latest.
const patience = 3 * time.Minute

// process is a broker of the real binary, over all of its lives.
type process struct {
	t        *testing.T
	dir      string
	socket   string
	address  string
	metrics  string
	operator *client.Client
	// Before what it is started with, such as strace and its flags.
	wrapper []string
	// The database of its market; empty: a file in dir.
	store string

	life *life
}

// life is one process.
type life struct {
	cmd    *exec.Cmd
	serves chan struct{} // closed when it serves
	ended  chan struct{} // closed when it has ended, and all it said is in log
	mu     sync.Mutex
	log    strings.Builder
}

// newProcess makes a broker that was never started; its addresses are the same in each of its lives.
func newProcess(t *testing.T) *process {
	t.Helper()
	dir, err := os.MkdirTemp("", "bourse") // not t.TempDir, whose name makes the socket's too long
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "broker.sock")
	b := &process{t: t, dir: dir, socket: socket, address: freeAddress(t),
		metrics: freeAddress(t), operator: client.New("unix://"+socket, nil)}
	t.Cleanup(func() {
		if t.Failed() && b.life != nil {
			t.Logf("the broker at %s said:\n%s", b.address, b.life.said())
		}
		b.kill()
		os.RemoveAll(dir)
	})
	return b
}

// freeAddress returns an address that is still free in the next life of a process.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := lab.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// journal is the path of the broker's journal.
func (b *process) journal() string { return filepath.Join(b.dir, "data", "market.db") }

// launch starts a process and does not wait for it.
func (b *process) launch() *life {
	b.t.Helper()
	args := append(append([]string{}, b.wrapper...), binary, "broker",
		"--dir", filepath.Join(b.dir, "data"), "--socket", b.socket,
		"--listen", b.address, "--metrics-bind-address", b.metrics, "--rate-limit", "100000", "--audit-every", "200ms", "--log-format", "json", "--store", b.store)
	l := &life{cmd: exec.Command(args[0], args[1:]...), serves: make(chan struct{}), ended: make(chan struct{})}
	stderr, err := l.cmd.StderrPipe()
	if err == nil {
		err = l.cmd.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	go l.listen(stderr)
	b.life = l
	return l
}

// listen takes in what a process says, until it ends.
func (l *life) listen(stderr io.Reader) {
	defer close(l.ended)
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		l.mu.Lock()
		l.log.Write(append(lines.Bytes(), '\n'))
		l.mu.Unlock()
		var said struct{ Msg string }
		if json.Unmarshal(lines.Bytes(), &said) == nil && said.Msg == "broker serves" {
			close(l.serves)
		}
	}
	_ = l.cmd.Wait()
}

func (l *life) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.String()
}

// start starts a process and waits until it serves.
func (b *process) start() {
	b.t.Helper()
	l := b.launch()
	select {
	case <-l.serves:
	case <-l.ended:
		b.t.Fatalf("the broker did not start, exit code %d:\n%s", l.cmd.ProcessState.ExitCode(), l.said())
	case <-time.After(patience):
		b.t.Fatalf("the broker does not serve:\n%s", l.said())
	}
}

// refused starts a process that must end by itself, and returns what it said. Its exit code must not be 0.
func (b *process) refused() string {
	b.t.Helper()
	l := b.launch()
	select {
	case <-l.ended:
	case <-l.serves:
		b.t.Fatalf("the broker serves:\n%s", l.said())
	case <-time.After(patience):
		b.t.Fatalf("the broker neither serves nor says why:\n%s", l.said())
	}
	if code := l.cmd.ProcessState.ExitCode(); code <= 0 {
		b.t.Fatalf("exit code %d, want one that says no:\n%s", code, l.said())
	}
	return l.said()
}

// kill ends the process without a warning.
func (b *process) kill() {
	if b.life != nil {
		_ = b.life.cmd.Process.Kill()
		<-b.life.ended
		b.life = nil
	}
}

// stop asks the process to end, and wants exit code 0.
func (b *process) stop() {
	b.t.Helper()
	_ = b.life.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-b.life.ended:
	case <-time.After(patience):
		b.t.Fatalf("the broker does not stop:\n%s", b.life.said())
	}
	if code := b.life.cmd.ProcessState.ExitCode(); code != 0 {
		b.t.Fatalf("exit code %d after SIGTERM:\n%s", code, b.life.said())
	}
	b.life = nil
}

// bourse runs a command of the binary as the broker's operator, and returns what it wrote.
func (b *process) bourse(args ...string) (string, error) {
	out, err := exec.Command(binary, append(args, "--server", "unix://"+b.socket)...).CombinedOutput()
	return string(out), err
}

// join makes a cluster a member that shows its card.
func (b *process) join(name string) *member.Member { return join(b.t, b.operator, name, time.Now()) }

func join(t *testing.T, operator *client.Client, name string, now time.Time) *member.Member {
	t.Helper()
	ctx := t.Context()
	token, err := operator.CreateToken(ctx, name, 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := member.Join(t, name, token.Token, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.ShowCard(ctx); err != nil {
		t.Fatal(err)
	}
	return m
}

// metric reads one metric without labels.
func metric(t *testing.T, address, name string) (value string) {
	t.Helper()
	eventually(t, "metric "+name, func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if found, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
				value = found
			}
		}
		return value != ""
	})
	return value
}

// balanced demands that the broker's books agree with themselves.
func (b *process) balanced() {
	b.t.Helper()
	balanced(b.t, b.metrics)
}

// balanced demands it of an audit that has begun since.
func balanced(t *testing.T, address string) {
	t.Helper()
	count := func() int {
		n, err := strconv.Atoi(metric(t, address, "bourse_market_audits_total"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	eventually(t, "two more audits", func(context.Context) bool { return count() >= before+2 })
	if wrong := metric(t, address, "bourse_market_imbalance"); wrong != "0" {
		t.Errorf("bourse_market_imbalance is %s", wrong)
	}
}

// eventually waits until something is so. It is for what nobody announces.
func eventually(t *testing.T, what string, ok func(ctx context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !ok(ctx) {
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", patience, what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// cpu makes resources of so many thousandths of a CPU.
func cpu(milli int64) api.Resources {
	return amounts.List{{Resource: "cpu", Value: milli}}.Resources()
}

func millis(r api.Resources) int64 { return r.Cpu().MilliValue() }
