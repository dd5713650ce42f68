package broker

import (
	"context"
	"errors"
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

// Resumed is a market that goes on as a new lineage, without what was acknowledged after some time.
type Resumed struct {
	// Head is where its journal goes on.
	Head journal.Head
	// Since is the time after which everything may be lost: that of the backup, or of the last event.
	Since time.Time
	// Members are those of that time. Of those that an operator suspended, revoked or removed since, the market knows nothing.
	Members []*market.Member
	// Void is how many join tokens were dropped. Nobody had used them at that time, and somebody may have since.
	Void int
}

// AcceptLoss makes a journal usable that verifies but is another than it was, as a new lineage, and drops the join tokens that
// nobody had used. Run it again if it was interrupted. Errors: NotFound where no journal is there; the store's.
func AcceptLoss(ctx context.Context, store Store) (Resumed, error) {
	if _, err := store.AcceptLoss(ctx); err != nil {
		return Resumed{}, missing(err)
	}
	var head journal.Head
	state, err := exchange.Fold(func(onSnapshot func(journal.Head, []byte) error, onRecord func(journal.Record) error) (_ journal.Head, err error) {
		head, err = store.Load(ctx, onSnapshot, onRecord)
		return head, err
	})
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

// unspentTokens are the join tokens that nobody has used, by ID.
func unspentTokens(s *market.State) (ids []string) {
	for _, t := range s.Tokens() {
		if t.UsedBy == "" {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// forgetTokens is the event by which a market drops join tokens, and its form in a journal.
func forgetTokens(s *market.State, ids []string) (market.Event, []byte, error) {
	event := market.Event{Time: s.Time, Forget: &market.Forget{Tokens: ids}}
	encoded, err := event.Append(nil)
	return event, encoded, err
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
