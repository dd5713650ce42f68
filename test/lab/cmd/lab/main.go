// Command lab runs a federation on three real Kubernetes clusters until it is interrupted, for
// people to use: rome, which borrows, and milan and paris, which lend. Each has the real Liqo, and
// pods of rome run on milan's and paris's nodes before you have a look; "lab --without-liqo" is lighter, and
// ends reservations at Reserved. It prints how. `make lab` runs it.
//
// With "lab --real" milan has one node, in an emulated machine, where pods really run: it shows what
// they log and answer. `make lab REAL=1` runs that.
//
// With "lab --storage" milan and paris lend disks (make lab STORAGE=1). With "lab --network" packets flow between
// rome and milan (make lab NETWORK=1).
//
// "lab door SOCKET kill|start ..." kills and starts what a lab runs; the lab gives people a command for it.
//
// "lab build" only builds the daemons of the clusters, and fetches the packages of the machine in
// which packets flow, once, so that no test's time limit has to cover that.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

func main() {
	klog.SetLogger(logr.Discard()) // the provisioner of disks reports each of its steps
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

// options say what the lab has.
type options struct {
	withoutLiqo, real, storage, network bool
}

const usage = `lab [--without-liqo | --real | --storage | --network], or lab build to build only what the clusters consist of`

// check refuses what does not go together.
func (o options) check() error {
	switch {
	case o.withoutLiqo && (o.real || o.storage || o.network):
		return errors.New("--without-liqo goes with no other flag")
	case o.real && (o.storage || o.network):
		return errors.New("--real goes with no other flag: its node has neither disks nor gateways")
	case o.storage && o.network:
		return errors.New("choose --storage or --network: the pods of --network mount no volumes")
	}
	return nil
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 1 && args[0] == "door":
		return knock(ctx, args[1], args[2:])
	case len(args) == 1 && args[0] == "build":
		return build(ctx)
	}
	var o options
	flags := flag.NewFlagSet("lab", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&o.withoutLiqo, "without-liqo", false, "")
	flags.BoolVar(&o.real, "real", false, "")
	flags.BoolVar(&o.storage, "storage", false, "")
	flags.BoolVar(&o.network, "network", false, "")
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if err = cmp.Or(err, o.check()); err != nil {
		return fmt.Errorf("%w\nusage: %s", err, usage)
	}
	return serve(ctx, o)
}

// build builds the daemons, and fetches the packages of the machine.
func build(ctx context.Context) error {
	if _, err := lab.Build(ctx, os.Stderr); err != nil {
		return err
	}
	if _, err := lab.BuildLiqo(ctx, os.Stderr); err != nil {
		return err
	}
	if _, err := lab.Kubectl(ctx, os.Stderr); err != nil {
		return err
	}
	if _, err := lab.Helm(ctx, os.Stderr); err != nil {
		return err
	}
	_, err := lab.FetchMachine(ctx, os.Stderr)
	if errors.Is(err, lab.ErrNoPackages) && os.Getenv("CI") != "true" {
		fmt.Fprintln(os.Stderr, "the tests of packets will be skipped:", err)
		return nil
	}
	return err
}

// serve runs the lab until ctx ends, or a part of it does.
func serve(ctx context.Context, o options) (err error) {
	l, err := lab.Start(ctx, lab.Options{Progress: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Stop()) }()
	kubectl, err := findKubectl(ctx)
	if err != nil {
		return err
	}
	var machine *lab.Machine
	if o.network {
		fmt.Fprintln(os.Stderr, "starting the machine in which packets flow ...")
		if machine, err = l.Machine(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stderr, "starting three clusters ...")
	f, err := federation.Start(ctx, federation.Options{Lab: l, Progress: os.Stderr, Members: members(o, machine)})
	defer f.Stop()
	if err != nil {
		return err
	}
	if o.storage {
		if err := lendDisks(ctx, f); err != nil {
			return err
		}
	}
	socket := filepath.Join(l.Dir(), "door")
	if err := openDoor(ctx, socket, &door{federation: f, machine: machine, liqo: !o.withoutLiqo}); err != nil {
		return err
	}
	if err := writeKnocker(filepath.Join(l.Dir(), "bin"), socket); err != nil {
		return err
	}
	if !o.withoutLiqo {
		if err := show(ctx, f, kubectl, o); err != nil {
			return err
		}
	}
	end, err := welcome(ctx, os.Stdout, l.Dir(), f, kubectl, o)
	defer end()
	if err != nil {
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
