package broker

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/postgres"
	"github.com/bourse-dev/bourse/internal/journal/sqlite"
)

// JournalFile is the name of the journal in a broker's folder, where it is not elsewhere.
const JournalFile = "market.db"

// Store is a journal that a broker can be told to keep its market in.
type Store interface {
	journal.Journal
	// Read verifies and replays the journal like Load, and changes nothing.
	Read(ctx context.Context, onSnapshot func(journal.Head, []byte) error, onRecord func(journal.Record) error) (journal.Head, error)
	// Begin makes a new journal begin at a snapshot. Errors: ErrConflict where it holds something.
	Begin(ctx context.Context, at journal.Head, state []byte) error
	// AcceptLoss: see the function.
	AcceptLoss(ctx context.Context) (journal.Head, error)
}

// OpenStore returns the store that --store names: "" or "sqlite" is the file in dir, postgres://USER@HOST/DATABASE
// a database. Errors: Invalid, without the password that may be in url.
func OpenStore(dir, url string) (Store, error) {
	switch scheme, _, _ := strings.Cut(url, "://"); scheme {
	case "", "sqlite":
		return sqlite.New(filepath.Join(dir, JournalFile)), nil
	case "postgres", "postgresql":
		store, err := postgres.New(url)
		if err != nil {
			return nil, api.Invalid("--store", "%s", err).Fix("say postgres://USER@HOST/DATABASE; a password is better in PGPASSWORD or ~/.pgpass")
		}
		return store, nil
	}
	return nil, api.Invalid("--store", "it is neither a database nor a file").Fix("say postgres://USER@HOST/DATABASE, or sqlite for the file in --dir")
}

// AcceptLoss makes a journal usable that verifies but is another than it was, as a new lineage. Errors: NotFound where
// no journal is there; the store's.
func AcceptLoss(ctx context.Context, store Store) (journal.Head, error) {
	head, err := store.AcceptLoss(ctx)
	return head, missing(err)
}

// missing says where a journal is not.
func missing(err error) error {
	if file, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, fs.ErrNotExist) {
		return api.Errorf(api.CodeNotFound, "there is no journal %s", file.Path).At("--dir").Fix("name the folder that the broker is started with")
	}
	if errors.Is(err, postgres.ErrNone) {
		return api.Errorf(api.CodeNotFound, "%s", err).At("--store").Fix("name the database that the broker is started with")
	}
	return err
}
