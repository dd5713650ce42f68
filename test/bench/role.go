package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"syscall"
	"time"

	"github.com/bourse-dev/bourse/internal/cli"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// roles are the commands of bourse that this program runs in place of it, for a profile.
var roles = []string{"agent", "broker", "ui"}

func isRole(args []string) bool { return len(args) > 1 && slices.Contains(roles, args[1]) }

// runRole runs a command of bourse. From one SIGUSR1 to the next it takes a CPU profile.
func runRole(args []string) int {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		if err := profileBetween(asked); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}()
	weigh := make(chan os.Signal, 1)
	signal.Notify(weigh, syscall.SIGUSR2)
	go func() {
		for range weigh {
			fmt.Println(heapLine, heapInUse())
		}
	}()
	return cli.Main(args[1:], os.Stdout, os.Stderr)
}

// heapLine begins the line that a role prints at SIGUSR2: the bytes of its heap that are in use.
const heapLine = "heap in use:"

// heapInUse returns the bytes of the heap that are in use after a collection.
func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// profileOfRole is where a process writes its profile: each has a home of its own.
func profileOfRole(role string) string { return role + ".pprof" }

func profileBetween(asked <-chan os.Signal) error {
	for range asked {
		path := filepath.Join(os.Getenv("HOME"), profileOfRole(os.Args[1]))
		f, err := os.Create(path + ".part")
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		<-asked
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			return err
		}
		if err := os.Rename(path+".part", path); err != nil {
			return err
		}
	}
	return nil
}

// use is the CPU time that the consumer's agent, the provider's agent and the broker used, and how long that lasted.
type use struct {
	cpu    [3]time.Duration
	lasted time.Duration
}

// use returns the use while something is done. With a folder it writes their profiles there.
func (c *crowd) use(ctx context.Context, profiles string, do func() error) (u use, err error) {
	of := [3]struct {
		*federation.Process
		profile, name string
	}{
		{c.rome.Agent(0), filepath.Join(c.rome.Cluster.Dir(), profileOfRole("agent")), "turns-consumer.pprof"},
		{c.milan.Agent(0), filepath.Join(c.milan.Cluster.Dir(), profileOfRole("agent")), "turns-provider.pprof"},
		{c.federation.Broker, filepath.Join(c.lab.Dir(), profileOfRole("broker")), "turns-broker.pprof"},
	}
	signalAll := func() (err error) {
		for _, p := range of {
			if profiles != "" && err == nil {
				err = p.Signal(syscall.SIGUSR1)
			}
		}
		return err
	}
	begun := time.Now()
	for i, p := range of {
		used, err := p.CPU()
		if err != nil {
			return u, err
		}
		u.cpu[i] = -used
	}
	if err := signalAll(); err != nil {
		return u, err
	}
	if err := do(); err != nil {
		return u, err
	}
	u.lasted = time.Since(begun)
	for i, p := range of {
		used, err := p.CPU()
		if err != nil {
			return u, err
		}
		u.cpu[i] += used
	}
	if err := signalAll(); err != nil || profiles == "" {
		return u, err
	}
	for _, p := range of {
		err := waitUntil(ctx, time.Minute, p.profile+" is written", func() (bool, error) {
			_, err := os.Stat(p.profile)
			return err == nil, nil
		})
		if err != nil {
			return u, err
		}
		profile, err := os.ReadFile(p.profile)
		if err != nil {
			return u, err
		}
		if err := os.WriteFile(filepath.Join(profiles, p.name), profile, 0o644); err != nil {
			return u, err
		}
	}
	return u, nil
}
