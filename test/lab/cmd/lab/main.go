// Command lab runs a federation on three real Kubernetes clusters until it is interrupted, for
// people to use: rome, which borrows, and milan and paris, which lend. Each has the real Liqo, and
// pods of rome run on milan's and paris's nodes before you have a look; "lab --without-liqo" is lighter, and
// ends reservations at Reserved. It prints how. `make lab` runs it.
//
// With "lab --real" milan has one node, in an emulated machine, where pods really run: it shows what
// they log and answer. `make lab REAL=1` runs that.
//
// "lab door SOCKET kill|start ..." kills and starts what a lab runs; the lab gives people a command for it.
//
// "lab build" only builds the daemons of the clusters, and fetches the packages of the machine in
// which packets flow, once, so that no test's time limit has to cover that.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := run(ctx, os.Args[1:])
	if ctx.Err() != nil {
		fmt.Fprintln(os.Stderr, "\nthe lab ended; nothing is left of it")
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 0:
		return serve(ctx, true, false)
	case len(args) == 1 && args[0] == "--without-liqo":
		return serve(ctx, false, false)
	case len(args) == 1 && args[0] == "--real":
		return serve(ctx, true, true)
	case len(args) > 1 && args[0] == "door":
		return knock(ctx, args[1], args[2:])
	case len(args) == 1 && args[0] == "build":
		if _, err := lab.Build(ctx, os.Stderr); err != nil {
			return err
		}
		if _, err := lab.BuildLiqo(ctx, os.Stderr); err != nil {
			return err
		}
		_, err := lab.FetchMachine(ctx, os.Stderr)
		if errors.Is(err, lab.ErrNoPackages) && os.Getenv("CI") != "true" {
			fmt.Fprintln(os.Stderr, "the tests of packets will be skipped:", err)
			return nil
		}
		return err
	default:
		return errors.New(`say "lab", "lab --without-liqo", "lab --real", or "lab build" to build only what the clusters consist of`)
	}
}

// serve runs the lab until ctx ends, or a part of it does.
func serve(ctx context.Context, liqo, real bool) (err error) {
	l, err := lab.Start(ctx, lab.Options{Progress: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Stop()) }()
	kubectl, err := findKubectl(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "starting three clusters ...")
	f, err := federation.Start(ctx, federation.Options{Lab: l, Progress: os.Stderr, Members: members(liqo, real)})
	defer f.Stop()
	if err != nil {
		return err
	}
	if liqo {
		if err := show(ctx, f, kubectl, real); err != nil {
			return err
		}
	}
	socket := filepath.Join(l.Dir(), "door")
	if err := openDoor(ctx, socket, &door{federation: f, liqo: liqo}); err != nil {
		return err
	}
	if err := writeKnocker(filepath.Join(l.Dir(), "bin"), socket); err != nil {
		return err
	}
	if err := welcome(os.Stdout, l.Dir(), f, kubectl, real); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-l.Done():
		return l.Err()
	case err := <-f.Crashes():
		return err
	}
}
