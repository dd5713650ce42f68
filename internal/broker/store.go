package broker

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/postgres"
	"github.com/bourse-dev/bourse/internal/journal/sqlite"
	"github.com/bourse-dev/bourse/internal/market"
)

// JournalFile is the name of the journal in a broker's folder, if the journal is a file.
const JournalFile = "market.db"

// Store is a journal that can keep a broker's market.
type Store interface {
	journal.Journal
	// Read verifies and replays the journal like Load, and changes nothing.
	Read(ctx context.Context, onSnapshot func(journal.Head, []byte) error,
		onRecord func(journal.Record) error) (journal.Head, error)
	// Begin starts a new journal with a snapshot. Errors: ErrConflict if it is not empty.
	Begin(ctx context.Context, head journal.Head, write func(io.Writer) error) error
	// AcceptLoss: see the function.
	AcceptLoss(ctx context.Context) (journal.Head, error)
}

// OpenStore returns the store that --store names: "" or "sqlite" is the file in dir,
// postgres://USER@HOST/DATABASE a database. Errors: Invalid, without the password that may be in url.
func OpenStore(dir, url string) (Store, error) {
	switch scheme, _, _ := strings.Cut(url, "://"); scheme {
	case "", "sqlite":
		return sqlite.New(filepath.Join(dir, JournalFile)), nil
	case "postgres", "postgresql":
		store, err := postgres.New(url)
		if err != nil {
			return nil, api.Invalid("--store", "%s", err).
				Fix("write postgres://USER@HOST/DATABASE, with the password in PGPASSWORD or ~/.pgpass")
		}
		return store, nil
	}
	return nil, api.Invalid("--store", "it is neither a database nor a file").
		Fix("write postgres://USER@HOST/DATABASE, or sqlite for the file in --dir")
}

// Resumed is a market that continues as a new lineage, without what was acknowledged after some time.
type Resumed struct {
	// Head is the position at which its journal continues.
	Head journal.Head
	// Since is the time after which everything may be lost: that of the backup or of the last event.
	Since time.Time
	// Members are the members at that time. The market does not know which of them an operator has
	// suspended, revoked or removed since.
	Members []*market.Member
	// Void is the number of dropped join tokens. They were unused then and may have been used since.
	Void int
}

// AcceptLoss makes a journal usable that verifies but differs from its former state, as a new lineage.
// It drops unused join tokens. Repeat it if it was interrupted. Errors: NotFound without a journal;
// those of the store.
func AcceptLoss(ctx context.Context, store Store) (Resumed, error) {
	if _, err := store.AcceptLoss(ctx); err != nil {
		return Resumed{}, missing(err)
	}
	state, head, err := exchange.Rebuild(ctx, store.Load)
	if err != nil {
		return Resumed{}, err
	}
	since, void := state.Time.Go(), unspentTokens(state)
	if len(void) > 0 {
		_, encoded, err := forgetTokens(state, void)
		if err != nil {
			return Resumed{}, err
		}
		if head, err = store.Append(ctx, head, [][]byte{encoded}); err != nil {
			return Resumed{}, err
		}
	}
	return Resumed{Head: head, Since: since, Members: state.Members(), Void: len(void)}, store.Close()
}

// unspentTokens returns the unused join tokens, by ID.
func unspentTokens(s *market.State) (ids []string) {
	for _, t := range s.Tokens() {
		if t.UsedBy == "" {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// forgetTokens returns the event that drops join tokens, and its encoding in a journal.
func forgetTokens(s *market.State, ids []string) (market.Event, []byte, error) {
	event := market.Event{Time: s.Time, Forget: &market.Forget{Tokens: ids}}
	encoded, err := event.Append(nil)
	return event, encoded, err
}

// missing names the place without a journal.
func missing(err error) error {
	if file, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, fs.ErrNotExist) {
		return api.Errorf(api.CodeNotFound, "there is no journal %s", file.Path).At("--dir").
			Fix("name the folder that the broker is started with")
	}
	if errors.Is(err, postgres.ErrNone) {
		return api.Errorf(api.CodeNotFound, "%s", err).At("--store").Fix("name the database that the broker is started with")
	}
	return err
}
