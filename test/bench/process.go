package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/internal/broker"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server"
)

// serveRole is the first argument of the process that serves: this program, started again.
const serveRole = "serve"

// What the serving process is told: where its files are, where it serves /readyz, and where its CPU
// profile goes. Bare serves no broker but the least that a Go server can do.
type orders struct {
	Dir, Probes, Profile string
	Bare                 bool
	// Limited says that callers have the default rate limit, and not as good as none.
	Limited bool
}

// said is one line of its answers.
type said struct {
	URL string        `json:"url,omitempty"`
	CPU time.Duration `json:"cpu,omitempty"`
}

// process is a serving process, as the one that makes the load sees it.
type process struct {
	dir     string
	url     string
	command *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
}

// orders are those for a broker with a journal on the disk.
func (b *bench) orders(name string) orders {
	o := orders{Dir: filepath.Join(b.dir, name)}
	if b.profile != "" {
		o.Profile = filepath.Join(b.profile, name+"-broker.pprof")
	}
	return o
}

// start runs a server in a process of its own.
func start(ctx context.Context, o orders) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	p := &process{dir: o.Dir, command: exec.CommandContext(ctx, self, serveRole, string(text))}
	p.command.Stderr = os.Stderr
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	onlyMakeLoad()
	p.out = json.NewDecoder(out)
	var first said
	if err := p.out.Decode(&first); err != nil {
		return nil, fmt.Errorf("the serving process did not start: %w", err)
	}
	p.url = first.URL
	return p, nil
}

// onlyMakeLoad lets this process collect its garbage rarely, until the end of the measurement: it
// stands for many machines, and what is measured elsewhere must not wait for the garbage of all of
// them. With 4 GiB, from then on, it collects as often as it must.
func onlyMakeLoad() {
	debug.SetGCPercent(1000)
	debug.SetMemoryLimit(4 << 30)
}

func (p *process) socket() string { return filepath.Join(p.dir, "broker.sock") }

// cpu is what the process has used so far.
func (p *process) cpu() (time.Duration, error) {
	if _, err := fmt.Fprintln(p.in); err != nil {
		return 0, err
	}
	var answer said
	err := p.out.Decode(&answer)
	return answer.CPU, err
}

// stop ends the process and waits for it.
func (p *process) stop() {
	_ = p.in.Close()
	_ = p.command.Wait()
}

// serve is the serving process. Each line that it reads it answers with its CPU time; between the first
// and the second one it takes a profile. It ends with its input, hence with its parent.
func serve(ctx context.Context, args []string) error {
	var o orders
	if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
		return err
	}
	if o.Probes != "" && o.Profile != "" { // of how it starts
		f, err := os.Create(o.Profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
		o.Profile = ""
	}
	group, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	answers := json.NewEncoder(os.Stdout)
	ready := make(chan string, 1)
	group.Go(func() error {
		if o.Bare {
			return serveBare(ctx, o.Dir, ready)
		}
		most := 1e6
		caps := market.Caps{Reservations: 1 << 20, Bytes: 1 << 40} // few members make what many do
		if o.Limited {
			most, caps = 0, market.Caps{}
		}
		return broker.Run(ctx, broker.Options{
			Dir: o.Dir, Listen: "127.0.0.1:0", MetricsAddress: o.Probes, Rate: most, Caps: caps, Log: slog.New(slog.DiscardHandler),
			Ready: func(url string) { ready <- url },
		})
	})
	select {
	case url := <-ready:
		if err := answers.Encode(said{URL: url}); err != nil {
			return err
		}
	case <-ctx.Done():
		return group.Wait()
	}
	if err := answer(answers, o.Profile); err != nil {
		return err
	}
	stop()
	return group.Wait()
}

func answer(answers *json.Encoder, profile string) error {
	if profile != "" {
		defer pprof.StopCPUProfile()
	}
	asked := bufio.NewScanner(os.Stdin)
	for n := 0; asked.Scan(); n++ {
		if n == 0 && profile != "" {
			f, err := os.Create(profile)
			if err != nil {
				return err
			}
			defer f.Close()
			if err := pprof.StartCPUProfile(f); err != nil {
				return err
			}
		}
		used, err := cpuTime()
		if err != nil {
			return err
		}
		if n == 1 {
			pprof.StopCPUProfile()
		}
		if n > 0 && profile != "" {
			if err := heapProfile(strings.TrimSuffix(profile, ".pprof") + "-heap.pprof"); err != nil {
				return err
			}
		}
		if err := answers.Encode(said{CPU: used}); err != nil {
			return err
		}
	}
	return asked.Err()
}

// heapProfile writes what is alive.
func heapProfile(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	runtime.GC()
	return pprof.Lookup("heap").WriteTo(f, 0)
}

// serveBare answers every call with nothing, over the same TLS and for the same members as the broker
// whose folder it is given.
func serveBare(ctx context.Context, dir string, ready chan<- string) error {
	authority, err := tlsid.Open(filepath.Join(dir, "ca"), []string{"127.0.0.1"}, time.Now)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	config := authority.ServerConfig()
	config.NextProtos = []string{"http/1.1"}
	ready <- "https://" + l.Addr().String()
	return server.ServeTLS(ctx, l, config, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}), server.Bounds{})
}
