package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Snapshot is the state of a cluster's etcd at one moment. It lives in the lab's folder and ends with it.
type Snapshot struct{ dir string }

// Snapshot keeps the present state. Etcd is away for a moment; clients may see their requests
// delayed or failed.
func (c *Cluster) Snapshot(ctx context.Context) (Snapshot, error) {
	dir, err := os.MkdirTemp(c.dir, "snapshot-")
	if err != nil {
		return Snapshot{}, err
	}
	s, back := Snapshot{dir}, []Daemon{Etcd}
	if c.runs(Kwok) {
		back = append(back, Kwok) // it never repeats what it could not write; a new one looks at everything
	}
	c.Kill(Kwok, Etcd)
	if err := os.CopyFS(s.dir, os.DirFS(c.etcdDir())); err != nil {
		return Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	return s, c.Start(ctx, back...)
}

// Restore puts a state back, as an admin does after a disaster: every daemon restarts, and resource
// versions run backwards for clients that saw what came after the snapshot. A snapshot can be restored
// many times, but only to the cluster it is of.
func (c *Cluster) Restore(ctx context.Context, s Snapshot) error {
	c.Kill(stopOrder()...)
	if err := os.RemoveAll(c.etcdDir()); err != nil {
		return err
	}
	if err := os.CopyFS(c.etcdDir(), os.DirFS(s.dir)); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return c.Start(ctx, c.daemons()...)
}

func (c *Cluster) etcdDir() string { return filepath.Join(c.dir, "etcd") }
