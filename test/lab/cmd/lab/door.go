package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// agent and broker are the processes of Bourse that people kill and start.
const agent, broker = "agent", "broker"

// killable are the daemons of a cluster that people kill and start, without those of Liqo if it has none.
var killable = []lab.Daemon{lab.Etcd, lab.APIServer, lab.ControllerManager, lab.Scheduler, lab.Kwok,
	lab.LiqoWebhook, lab.LiqoControllerManager, lab.LiqoCRDReplicator}

// knockWithin is how long a caller may take to say what it wants.
const knockWithin = 10 * time.Second

// door kills and starts what a lab runs: people try what happens then.
type door struct {
	mu         sync.Mutex
	federation *federation.Federation
	liqo       bool
}

// openDoor serves a door at a Unix socket until ctx ends.
func openDoor(ctx context.Context, path string, d *door) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: d, ReadHeaderTimeout: knockWithin}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	go func() { _ = s.Serve(l) }()
	return nil
}

// ServeHTTP does what a path says: /kill/milan/kube-apiserver, /start/milan/agent, /kill/broker.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	act, of, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/")
	if err := d.do(r.Context(), act, of); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func (d *door) do(ctx context.Context, act, of string) error {
	if act != "kill" && act != "start" {
		return errors.New("say: lab kill|start broker, or lab kill|start CLUSTER PROCESS")
	}
	if of == broker {
		if act == "kill" {
			d.federation.Broker.Kill()
			return nil
		}
		d.federation.Broker.Kill() // one that runs would hold the address
		return d.federation.StartBroker(ctx)
	}
	name, process, _ := strings.Cut(of, "/")
	m, err := d.member(name)
	if err != nil {
		return err
	}
	if process == agent {
		if m.Agent(0).Kill(); act == "start" {
			_, err = m.StartAgent(0)
		}
		return err
	}
	daemon := lab.Daemon(process)
	known := killable
	if !d.liqo {
		known = known[:slices.Index(known, lab.LiqoWebhook)]
	}
	if !slices.Contains(known, daemon) {
		return fmt.Errorf("%q is no process of a cluster: choose %s, or one of %v", process, agent, known)
	}
	if act == "start" {
		return m.Cluster.Start(ctx, daemon)
	}
	m.Cluster.Kill(daemon)
	return nil
}

func (d *door) member(name string) (*federation.Member, error) {
	var names []string
	for _, m := range d.federation.Members {
		if names = append(names, m.Name); m.Name == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("%q is no cluster of the lab: choose one of %v, or broker", name, names)
}

// writeKnocker writes the command that people call, into a folder of their PATH.
func writeKnocker(bin, socket string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	script := fmt.Sprintf("#!/bin/sh\nexec %q door %q \"$@\"\n", program, socket)
	return os.WriteFile(filepath.Join(bin, "lab"), []byte(script), 0o700)
}

// knock has the door at a socket do what args say.
func knock(ctx context.Context, socket string, args []string) error {
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://lab/"+strings.Join(args, "/"), nil)
	if err != nil {
		return err
	}
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	why, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(why)))
	}
	return err
}
