package tables

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/internal/journal"
)

// Reading is one verified reading of a journal. The result counts only if there is no error.
type Reading struct {
	Queries
	Base, Head journal.Head
	// Passed, if set, is called with the base and with the head after each record.
	Passed func(journal.Head)
	// Refuse makes the error for what does not verify.
	Refuse func(format string, args ...any) error
	// Callback is the error of a callback.
	Callback error
}

// OnSnapshot and OnRecord are the callbacks of Load: see journal.Journal.
type (
	OnSnapshot = func(journal.Head, []byte) error
	OnRecord   = func(journal.Record) error
)

// IgnoreState and IgnoreRecord are callbacks that do nothing.
func IgnoreState(journal.Head, []byte) error { return nil }

// IgnoreRecord does nothing.
func IgnoreRecord(journal.Record) error { return nil }

// Replay reads the journal from r.Base on, verifies it and replays it. db must show one state of the
// database.
func (r *Reading) Replay(ctx context.Context, db Queryer, first, last int64, seal []byte, onSnapshot OnSnapshot,
	onRecord OnRecord) error {
	state, err := r.state(ctx, db, first, last)
	if err != nil {
		return err
	}
	sealed := make(chan bool, 1)
	go func() { // beside the callback
		want := r.Base.Seal(state)
		sealed <- bytes.Equal(seal, want[:])
	}()
	if len(state) > 0 {
		err = onSnapshot(r.Base, state)
	}
	if !<-sealed {
		return r.Refuse("the snapshot at revision %d, %d bytes, does not match its seal", r.Base.Revision, len(state))
	}
	if r.Callback = err; err != nil {
		return err
	}
	r.pass(r.Base)
	return r.records(ctx, db, onRecord)
}

func (r *Reading) state(ctx context.Context, db Queryer, first, last int64) (state []byte, err error) {
	var size int
	if err := db.QueryRowContext(ctx, r.Size, first, last).Scan(&size); err != nil {
		return nil, err
	}
	state = make([]byte, 0, size)
	rows, err := db.QueryContext(ctx, r.State, first, last)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var part sql.RawBytes
		if err := rows.Scan(&part); err != nil {
			return nil, err
		}
		state = append(state, part...)
	}
	return state, rows.Err()
}

// ahead is how many records are read and verified ahead of the one that is replayed.
const ahead = 4

func (r *Reading) records(ctx context.Context, db Queryer, onRecord OnRecord) error {
	verified := make(chan journal.Record, ahead)
	replay, replaying := errgroup.WithContext(ctx)
	replay.Go(func() error {
		for record := range verified {
			if err := onRecord(record); err != nil {
				return err
			}
		}
		return nil
	})
	err := r.follow(ctx, replaying.Done(), db, verified)
	close(verified)
	r.Callback = replay.Wait()
	return cmp.Or(r.Callback, err)
}

// follow reads the records, and passes on those that continue the chain, until replay has ended.
func (r *Reading) follow(ctx context.Context, ended <-chan struct{}, db Queryer, verified chan<- journal.Record) error {
	rows, err := db.QueryContext(ctx, r.Records, int64(r.Base.Revision))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var revision uint64
		var hash sql.RawBytes
		var encoded []byte
		if err := rows.Scan(&revision, &hash, &encoded); err != nil {
			return err
		}
		next, events, err := r.Head.Follow(revision, hash, encoded)
		if err != nil {
			return r.Refuse("%v", err)
		}
		r.pass(next)
		select {
		case verified <- journal.Record{Revision: revision, Events: events}:
		case <-ended:
			return ctx.Err()
		}
	}
	return rows.Err()
}

func (r *Reading) pass(head journal.Head) {
	if r.Head = head; r.Passed != nil {
		r.Passed(head)
	}
}

// Remedies that all databases share.
const (
	RemedyInUse = "stop the other process first"
	RemedyNewer = "start the version of bourse that wrote it, or a later one"
)

// Refused returns the error for a journal that must not be used as it is.
func Refused(where, remedy, format string, args ...any) error {
	return &journal.RefusedError{Where: where, Found: fmt.Sprintf(format, args...), Remedy: remedy}
}
