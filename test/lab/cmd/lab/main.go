// Command lab runs clusters until it is interrupted: lab rome milan.
//
// Without names it only builds the daemons, so that no test's time limit has to cover that.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/bourse-dev/bourse/test/lab"
	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string) (err error) {
	if len(names) == 0 {
		_, err := lab.Build(ctx, os.Stderr)
		return err
	}
	l, err := lab.Start(ctx, lab.Options{Progress: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Stop()) }()
	clusters, starting := make([]*lab.Cluster, len(names)), errgroup.Group{}
	for i, name := range names {
		starting.Go(func() error {
			nodes := []lab.Node{{Name: name + "-1"}, {Name: name + "-2"}}
			c, err := l.Cluster(ctx, lab.ClusterOptions{Name: name, Nodes: nodes})
			clusters[i] = c
			return err
		})
	}
	if err := starting.Wait(); err != nil {
		return err
	}
	for _, c := range clusters {
		fmt.Println("export KUBECONFIG=" + c.Kubeconfig())
	}
	select {
	case <-ctx.Done():
		return nil
	case <-l.Done():
		return l.Err()
	}
}
