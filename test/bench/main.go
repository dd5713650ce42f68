// Command bench measures the figures that Bourse promises, all in one run, and writes them as a
// table and as bench.json:
//
//	go run ./test/bench                   everything, about 37 minutes
//	go run ./test/bench -run 'held|decide'
//	go run ./test/bench -quick            to see that it works; the figures are worth less
//	go run ./test/bench -run held -profile /tmp/p && go tool pprof -top /tmp/p/held-broker.pprof
//
// How each figure is taken, and why so, is in docs/performance.md. In short: the broker runs in a
// process of its own, so that its CPU time can be told from that of the load; everything warms up
// first and lasts a bounded time; what depends on the machine is given as a ratio to what the same
// machine did in the same run; and nothing here passes or fails: a figure is met or not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"
)

// measurement takes some figures.
type measurement struct {
	name  string
	takes func(context.Context, *bench) ([]Figure, error)
}

var measurements = []measurement{
	{"decide", decide},
	{"fits", fits},
	{"market", marketAlone},
	{"advertise", advertise},
	{"reserved", reserved},
	{"held", held},
	{"hostile", hostile},
	{"purchases", purchases},
	{"restart", restart},
	{"sales", sales},
	{"ledger", ledger},
	{"catalog", catalog},
	{"tell", tell},
	{"connected", connected},
	{"agent", agentAtScale},
	{"hub", hubAtRest},
	{"ready", ready},
	{"turns", turns},
	{"burst", burst},
	{"dead", dead},
	{"pages", readPages},
	{"ui", webUI},
}

// bench is one run.
type bench struct {
	dir     string // for journals and all else that is gone afterwards
	quick   bool
	profile string // folder for profiles, or empty
}

// lasts shortens a time where only the working is of interest.
func (b *bench) lasts(d time.Duration) time.Duration {
	if b.quick {
		return d / 10
	}
	return d
}

// count shortens a count likewise.
func (b *bench) count(n int) int {
	if b.quick {
		return n / 10
	}
	return n
}

// say tells how far the run is.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if isRole(os.Args) {
		os.Exit(runRole(os.Args))
	}
	if len(os.Args) > 1 && os.Args[1] == serveRole {
		err = serve(ctx, os.Args[2:])
	} else {
		err = run(ctx)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	which := flag.String("run", "", "only the measurements whose name matches: "+names())
	out := flag.String("out", "bench.json", "where to write the figures")
	dir := flag.String("dir", os.TempDir(), "a folder on the disk to measure")
	quick := flag.Bool("quick", false, "a tenth of the time and of the sizes")
	profile := flag.String("profile", "",
		"folder for profiles: NAME.pprof, and NAME-broker.pprof and NAME-broker-heap.pprof where there is one")
	flag.Parse()
	chosen, err := regexp.Compile(*which)
	if err != nil {
		return err
	}
	b := &bench{quick: *quick, profile: *profile}
	if b.dir, err = os.MkdirTemp(*dir, "bourse-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	say("%s, %d cores, %s/%s, load %s", runtime.Version(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, busy())
	var figures []Figure
	var failed error // of some; the figures of the others are shown
	for _, m := range measurements {
		if !chosen.MatchString(m.name) || ctx.Err() != nil {
			continue
		}
		say("%s ...", m.name)
		begin := time.Now()
		var more []Figure
		others, err := quietly(func() (err error) {
			defer debug.SetGCPercent(debug.SetGCPercent(100)) // those that run in this process
			more, err = b.profiled(m.name, func() ([]Figure, error) { return m.takes(ctx, b) })
			return err
		})
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", m.name, err))
			say("%s failed: %v", m.name, err)
			continue
		}
		say("%s took %.0fs; others had %.1f cores meanwhile", m.name, time.Since(begin).Seconds(), others)
		figures = append(append(figures, more...), plain("others on the machine during "+m.name, others, "cores"))
	}
	show(os.Stdout, figures)
	return errors.Join(failed, write(filepath.Clean(*out), figures))
}

// profiled takes a CPU profile of this process, if any was asked for; the broker takes its own.
func (b *bench) profiled(name string, takes func() ([]Figure, error)) ([]Figure, error) {
	if b.profile == "" {
		return takes()
	}
	if err := os.MkdirAll(b.profile, 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(b.profile, name+".pprof"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	defer pprof.StopCPUProfile()
	return takes()
}

func names() string {
	var all []string
	for _, m := range measurements {
		all = append(all, m.name)
	}
	return strings.Join(all, ", ")
}

// busy is how many processes wanted the cores lately. More than a few tenths spoils the figures.
func busy() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
