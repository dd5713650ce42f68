package federation

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/test/lab"
)

// Options say what a federation consists of.
type Options struct {
	// Lab is where the clusters run. Required; the caller stops it.
	Lab *lab.Lab
	// Binary is the path of the bourse to run. Default: Start builds one in the lab's folder.
	Binary string
	// Source is the folder of the repository whose CRDs, roles and policies are installed. Default: this one.
	Source string
	// Progress receives a line now and then. Default: nowhere.
	Progress io.Writer
	// Members are the clusters. Start completes them.
	Members []*Member
	// BrokerFlags are added to the broker's own.
	BrokerFlags []string
}

// Federation is a broker and the agents of its members.
type Federation struct {
	// Binary is the path of the bourse that all of them run.
	Binary string
	// Broker is the broker's process.
	Broker *Process
	// BrokerSocket is where operators reach it, Operator does so.
	BrokerSocket string
	Operator     *client.Client
	Members      []*Member

	dir, source string
	address     string
	flags       []string
	crashes     chan error
}

// Start builds the binary, starts the clusters, the broker and one agent in each cluster, and
// returns when all agents have joined and the broker has heard from each. On an error the caller
// stops what runs, with Stop.
func Start(ctx context.Context, o Options) (*Federation, error) {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	f := &Federation{
		Binary:       o.Binary,
		BrokerSocket: filepath.Join(o.Lab.Dir(), "broker.sock"), source: o.Source,
		Members: o.Members, dir: o.Lab.Dir(), flags: o.BrokerFlags, crashes: make(chan error, 16),
	}
	f.Operator = client.New("unix://"+f.BrokerSocket, nil)
	var err error
	if f.source == "" {
		if f.source, err = Source(); err != nil {
			return f, err
		}
	}
	if f.address, err = freeAddress(); err != nil {
		return f, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, m := range o.Members {
		group.Go(func() error { return m.start(groupCtx, f, o.Lab) })
	}
	group.Go(func() (err error) {
		if f.Binary == "" {
			fmt.Fprintln(o.Progress, "building bourse ...")
			if f.Binary, err = Build(groupCtx, filepath.Join(o.Lab.Dir(), "bin")); err != nil {
				return err
			}
		}
		return f.StartBroker(groupCtx)
	})
	if err := group.Wait(); err != nil {
		return f, err
	}
	for _, m := range o.Members {
		if err := m.join(ctx); err != nil {
			return f, err
		}
	}
	for _, m := range o.Members {
		if err := m.AwaitConnected(ctx); err != nil {
			return f, err
		}
	}
	fmt.Fprintln(o.Progress, "the broker and the agents are up")
	return f, nil
}

// Add starts another cluster with an agent, and returns when the broker has heard from it.
func (f *Federation) Add(ctx context.Context, l *lab.Lab, m *Member) error {
	if err := m.start(ctx, f, l); err != nil {
		return err
	}
	f.Members = append(f.Members, m)
	if err := m.join(ctx); err != nil {
		return err
	}
	return m.AwaitConnected(ctx)
}

// StartBroker starts the broker with the folder and the address that it had before, and returns
// when it serves.
func (f *Federation) StartBroker(ctx context.Context) (err error) {
	args := []string{"broker", "--dir", "broker", "--listen", f.address, "--socket", f.BrokerSocket}
	f.Broker, err = run("broker", f.dir, f.Binary, append(args, f.flags...), f.crashed)
	if err != nil {
		return err
	}
	return await(ctx, f.Broker, "the broker to serve", func(ctx context.Context) error {
		_, err := f.Operator.Members(ctx)
		return err
	})
}

// URL is where members reach the broker.
func (f *Federation) URL() string { return "https://" + f.address }

// Crashes receives why a process ended that nobody told to.
func (f *Federation) Crashes() <-chan error { return f.crashes }

func (f *Federation) crashed(err error) {
	select {
	case f.crashes <- err:
	default: // nobody listens, and one is enough
	}
}

// Stop ends every process of the federation; the clusters are the lab's.
func (f *Federation) Stop() {
	for _, m := range f.Members {
		for _, a := range m.agents {
			a.Kill()
		}
	}
	f.Broker.Kill()
}

// freeAddress returns an address on loopback that a program can come back to.
func freeAddress() (string, error) {
	port, err := lab.FreePort()
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// await asks until there is no error any more, ctx ends, or the process does.
func await(ctx context.Context, p *Process, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for delay := lab.Polls.DelayFunc(); ; {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(delay()):
		case <-p.Done():
			return p.failure()
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last answer: %w", what, ctx.Err(), err)
		}
	}
}

// Path is that of a file of the repository.
func (f *Federation) Path(name string) string { return filepath.Join(f.source, name) }
