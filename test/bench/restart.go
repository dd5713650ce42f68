package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// restart measures how long a broker that is started on full books takes until it says that it
// serves (/readyz), from before its process is there: the snapshot and what came after it are read,
// verified and replayed. In proportion: how long reading the same bytes takes. The median of five.
func restart(ctx context.Context, b *bench) ([]Figure, error) {
	o := orders{Dir: filepath.Join(b.dir, "restart")}
	full := &books{clusters: b.count(many), reservations: b.count(live), after: b.count(live) / 5}
	if err := full.write(ctx, o.Dir); err != nil {
		return nil, err
	}
	var err error
	if o.Probes, err = freeAddress(); err != nil {
		return nil, err
	}
	if b.profile != "" {
		o.Profile = filepath.Join(b.profile, "restart-broker.pprof")
	}
	var took, used []float64
	for range 5 {
		wall, cpu, err := startUntilReady(ctx, o)
		if err != nil {
			return nil, err
		}
		took, used = append(took, wall.Seconds()), append(used, cpu.Seconds())
	}
	slices.Sort(took)
	slices.Sort(used)
	size, err := folderSize(o.Dir)
	if err != nil {
		return nil, err
	}
	return []Figure{
		atMost(2, "restart, 10,000 clusters, 100,000 reservations: until /readyz", took[2], "s"),
		plain("restart, CPU time", used[2], "s"),
		plain("restart, what is read", size/(1<<20), "MiB"),
	}, nil
}

// startUntilReady starts a broker, waits until it says that it is ready, and stops it.
func startUntilReady(ctx context.Context, o orders) (took, used time.Duration, err error) {
	begin := time.Now()
	ready := make(chan time.Duration, 1)
	go func() {
		for ctx.Err() == nil {
			if answer, err := http.Get("http://" + o.Probes + "/readyz"); err == nil {
				answer.Body.Close()
				if answer.StatusCode == http.StatusOK {
					ready <- time.Since(begin)
					return
				}
			}
			time.Sleep(time.Millisecond)
		}
	}()
	p, err := start(ctx, o)
	if err != nil {
		return 0, 0, err
	}
	defer p.stop()
	select {
	case took = <-ready:
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	used, err = p.cpu()
	return took, used, err
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func folderSize(dir string) (size float64, err error) {
	files, err := os.ReadDir(dir)
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			size += float64(info.Size())
		}
	}
	return size, err
}
