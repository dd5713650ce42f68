// Package lab runs real Kubernetes clusters as plain processes: no container, no root, no network
// but loopback.
//
// A cluster is etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK, which plays
// the kubelets: its nodes are objects without machines, its pods become Running without images. All
// else is the real thing: admission, RBAC, scheduling, watches, garbage collection. The daemons are
// built once from the versions pinned in tools/kubernetes, into a cached folder ([Build]). A node may
// be real instead: an emulated machine with containerd, kubelet and kube-proxy ([Node.Real]).
//
//	func TestSomething(t *testing.T) {
//		l := lab.Test(t)                              // skips under -short; everything is gone when the test ends
//		rome, err := l.Cluster(t.Context(), lab.ClusterOptions{
//			Name:  "rome",
//			CRDs:  os.DirFS("../../config/crd"),
//			Nodes: []lab.Node{{Name: "node-1"}},      // 8 CPU, 32Gi, 110 pods
//		})
//		...
//		client := kubernetes.NewForConfigOrDie(rome.Config())
//	}
//
// A cluster takes 4 s of two cores to start and 350 MB; a test that needs only an API server asks
// for a Light one. On a machine that has no daemons yet, run "go run ./test/lab/cmd/lab" once
// before the tests: building them takes longer than go test's ten minutes may last.
//
// Besides starting clusters, a lab breaks them: it kills and restarts daemons ([Cluster.Kill],
// [Cluster.Start]) and puts an older state of etcd back ([Cluster.Snapshot], [Cluster.Restore]).
// And it tells who asked the API server for what ([Cluster.Requests]).
package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// Options say where a lab lives.
type Options struct {
	// Dir is the folder of the lab's state: for each cluster one folder with its keys, etcd,
	// kubeconfig and logs. Default: a new folder below os.TempDir.
	Dir string
	// Keep leaves Dir in place after Stop.
	Keep bool
	// Progress receives a line now and then while daemons are built and clusters start. Default: nowhere.
	Progress io.Writer
}

// Lab is a set of clusters that live and end together. Its methods may be called concurrently.
type Lab struct {
	dir      string
	keep     bool
	progress io.Writer
	bin      Binaries
	done     chan struct{}

	mu       sync.Mutex
	ended    bool // done is closed
	err      error
	clusters []*Cluster
	machines []*process
}

// Start makes an empty lab, building the daemons if their cached folder lacks them: minutes the
// first time, see [Build].
func Start(ctx context.Context, o Options) (*Lab, error) {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	bin, err := Build(ctx, o.Progress)
	if err != nil {
		return nil, err
	}
	dir, err := labDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("lab folder: %w", err)
	}
	return &Lab{dir: dir, keep: o.Keep, progress: o.Progress, bin: bin, done: make(chan struct{})}, nil
}

// labDir makes the folder, readable by its owner alone: it holds keys, and etcd's sockets, which
// ask for no password.
func labDir(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "bourse-lab-")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}

// Dir is the folder of the lab's state.
func (l *Lab) Dir() string { return l.dir }

// Done is closed when the lab has come to its end: by Stop, or because a daemon ended that nobody told to.
func (l *Lab) Done() <-chan struct{} { return l.done }

// Err says which daemon ended untold, with its last words; nil if none did.
func (l *Lab) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *Lab) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended, l.err = true, err
		close(l.done)
	}
}

// errEnded is why nothing more can be done once Done is closed.
func (l *Lab) errEnded() error { return cmp.Or(l.Err(), errors.New("the lab is stopped")) }

// say reports progress. Clusters may start at the same time.
func (l *Lab) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.progress, format+"\n", args...)
}

// Stop kills every daemon and, unless told to keep it, removes the lab's folder. State is thrown
// away, so nothing is asked to end in an orderly way.
func (l *Lab) Stop() error {
	l.end(nil)
	l.mu.Lock()
	clusters, machines := l.clusters, l.machines
	l.mu.Unlock()
	for _, c := range clusters {
		c.killAll()
	}
	for _, m := range machines {
		m.kill()
	}
	if l.keep {
		return nil
	}
	return os.RemoveAll(l.dir)
}

// admit adds a cluster and returns its number, counted from 0.
func (l *Lab) admit(c *Cluster) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, other := range l.clusters {
		if other.name == c.name {
			return 0, fmt.Errorf("cluster %q exists already in this lab", c.name)
		}
	}
	l.clusters = append(l.clusters, c)
	return len(l.clusters) - 1, nil
}
