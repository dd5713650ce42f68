package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

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
	machine    *lab.Machine // nil without
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

// ServeHTTP does what the words of a call say: "kill milan kube-apiserver", "start milan agent", "kill broker".
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	words := slices.Concat(r.URL.Query()["word"], []string{"", "", "", ""})
	answer, err := "", error(nil)
	if words[0] == "get" {
		answer, err = d.get(r.Context(), words[1], words[2], words[3])
	} else {
		err = d.do(r.Context(), words[0], words[1], words[2])
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, answer)
}

// get is what a pod, as NAMESPACE/NAME, is answered by a URL.
func (d *door) get(ctx context.Context, name, pod, address string) (string, error) {
	m, err := d.member(name)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return "", fmt.Errorf("%q is no URL: say: lab get CLUSTER NAMESPACE/POD http://ADDRESS:PORT", address)
	}
	if d.machine == nil || m.Machine == nil {
		return "", fmt.Errorf("no packets flow in %s: run make lab NETWORK=1, and choose rome or milan", name)
	}
	var p corev1.Pod
	key := kube.ObjectKey{}
	key.Namespace, key.Name, _ = strings.Cut(pod, "/")
	if err := m.Objects.Get(ctx, key, &p); err != nil {
		return "", err
	}
	if p.Spec.NodeName != m.Name {
		return "", fmt.Errorf("pod %s of %s is on node %q: choose a pod on node %s", pod, m.Name, p.Spec.NodeName, m.Name)
	}
	answer, err := d.machine.Run(ctx, fmt.Sprintf("nsenter --net=/run/netns/%s get '%s'", p.UID,
		strings.ReplaceAll(u.String(), "'", "%27")))
	return answer + "\n", err
}

func (d *door) do(ctx context.Context, act, name, process string) error {
	if act != "kill" && act != "start" {
		return errors.New("say: lab kill|start broker, lab kill|start CLUSTER PROCESS, or lab get CLUSTER NAMESPACE/POD URL")
	}
	if name == broker {
		if act == "kill" {
			d.federation.Broker.Kill()
			return nil
		}
		d.federation.Broker.Kill() // one that runs would hold the address
		return d.federation.StartBroker(ctx)
	}
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

// knock has the door at a socket do what args say, and prints its answer.
func knock(ctx context.Context, socket string, args []string) error {
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	words := url.Values{"word": args}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://lab/?"+words.Encode(), nil)
	if err != nil {
		return err
	}
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if err == nil && answer.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(text)))
	}
	fmt.Print(string(text))
	return err
}
