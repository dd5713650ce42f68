// Package memorytest keeps a journal in memory, for tests. The journal survives Close, but not its process.
package memorytest

import (
	"bytes"
	"context"
	"io"
	"sync"

	"github.com/bourse-dev/bourse/internal/journal"
)

// Journal is a journal.Journal. After Close, Load opens it again.
type Journal struct {
	mu     sync.Mutex
	loaded bool
	image  journal.Image
}

var _ journal.Journal = (*Journal)(nil)

// New returns an empty journal.
func New() *Journal { return &Journal{image: journal.NewImage()} }

// Load implements journal.Journal.
func (j *Journal) Load(_ context.Context, onSnapshot func(journal.Head, []byte) error,
	onRecord func(journal.Record) error) (journal.Head, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.image.Replay(onSnapshot, onRecord); err != nil {
		return journal.Head{}, err
	}
	j.loaded = true
	return j.image.Head, nil
}

// Append implements journal.Journal.
func (j *Journal) Append(ctx context.Context, after journal.Head, events [][]byte) (journal.Head, error) {
	return j.change(ctx, func() error { return j.image.Append(after, events) })
}

// Snapshot implements journal.Journal.
func (j *Journal) Snapshot(ctx context.Context, head journal.Head, write func(io.Writer) error) error {
	var state bytes.Buffer
	if err := write(&state); err != nil {
		return err
	}
	_, err := j.change(ctx, func() error { return j.image.Snapshot(head, state.Bytes()) })
	return err
}

// NewLineage implements journal.Journal.
func (j *Journal) NewLineage(ctx context.Context, after journal.Head) (journal.Head, error) {
	return j.change(ctx, func() error { return j.image.NewLineage(after) })
}

// Size implements journal.Journal: there is no bound.
func (j *Journal) Size() journal.Size { return journal.Size{} }

// Close implements journal.Journal.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.loaded = false
	return nil
}

func (j *Journal) change(ctx context.Context, change func() error) (journal.Head, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.loaded {
		return journal.Head{}, journal.ErrNotLoaded
	}
	if err := ctx.Err(); err != nil {
		return journal.Head{}, err
	}
	if err := change(); err != nil {
		return journal.Head{}, err
	}
	return j.image.Head, nil
}
