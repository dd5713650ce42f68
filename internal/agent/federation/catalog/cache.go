// Package catalog keeps this cluster's copy of the catalog: what each broker and connector showed
// it last. The agent saves the copy, so that users see what was on sale while no broker is reached.
// Nothing is decided by the copy: for a purchase the seller signs again.
//
// Start at [Cache]. A session reports each event of its watch to Record, and the end of the watch to
// MarkLost; Token says from where its next watch continues. Search reads the copies, and [Merge] joins
// offers of several sources into one list.
package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/payload"
)

// ObjectName is the object in which an agent saves the copy.
const ObjectName = "catalog"

const (
	// firstSave is how long the first change after the start waits for others, before they are saved
	// together. saveEvery is how long later changes wait.
	firstSave = time.Second
	saveEvery = 10 * time.Second
	// lastSave bounds the save at the end.
	lastSave = 2 * time.Second
	// everything asks a watch for the catalog from the beginning.
	everything = "all"
)

// Options say whose cache it is and where it is saved.
type Options struct {
	// Cluster is this cluster. Its own connector is not copied.
	Cluster string
	Journal journal.Journal
	Clock   clock.Clock
	Log     *slog.Logger
}

// Cache holds one copy of the catalog for each broker and connector with which this cluster deals.
type Cache struct {
	Options
	bounds  bounds
	changed chan struct{} // something has to be saved

	head journal.Head // of Load, and then of Run

	mu     sync.Mutex
	copies map[string]*offerCopy // by Via
}

// New returns an empty cache. Load fills it.
func New(o Options) *Cache {
	return &Cache{Options: o, bounds: newBounds(debug.SetMemoryLimit(-1)), changed: make(chan struct{}, 1), copies: map[string]*offerCopy{}}
}

// Load reads what was saved. A copy that cannot be read is left out: the next watch makes it again.
func (c *Cache) Load(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	saved := map[string]*offerCopy{}
	var err error
	c.head, err = c.Journal.Load(ctx, func(_ journal.Head,
		state []byte) error {
		return payload.Unmarshal(state, &saved)
	}, ignoreRecord)
	if err != nil {
		c.Log.Warn("the copy of the catalog cannot be read: it is made again",
			"error", err, "remedy", "if this repeats, delete ledger "+ObjectName+": it is only a copy")
		return
	}
	for via, copied := range saved {
		if copied != nil && copied.Offers != nil {
			copied.measure()
			c.copies[via] = copied
		}
	}
}

func ignoreRecord(journal.Record) error { return nil }

// Run saves changes until ctx ends, and then the last of them.
func (c *Cache) Run(ctx context.Context) error {
	for pause := firstSave; ctx.Err() == nil; pause = saveEvery {
		select {
		case <-ctx.Done():
		case <-c.changed:
			select {
			case <-ctx.Done():
			case <-c.Clock.After(pause):
			}
			c.save(ctx)
		}
	}
	// A write that the end interrupted may still be made, and conflict with the next.
	_ = wait.PollUntilContextTimeout(context.WithoutCancel(ctx), lastSave/20, lastSave, true,
		func(last context.Context) (saved bool, _ error) {
			select {
			case <-c.changed:
				c.save(last)
				return len(c.changed) == 0, nil
			default:
				return true, nil
			}
		})
	return nil
}

// save writes the copies. Where the object has no room for all, it writes the offers of fewer sellers. What was
// not written, also because ctx ended, still has to be. No watch waits for the API server meanwhile.
func (c *Cache) save(ctx context.Context) {
	for halved := 0; ; halved++ {
		state, fewer, err := c.encode(halved)
		if err == nil {
			err = c.write(ctx, state)
		}
		if errors.Is(err, journal.ErrFull) && fewer {
			continue
		}
		if err != nil {
			c.noteChange()
			if ctx.Err() == nil {
				c.Log.Warn("the copy of the catalog was not saved", "error", err)
			}
		}
		return
	}
}

// encode returns the copies, with half of the sellers as often as halved says, and whether there are fewer still.
func (c *Cache) encode(halved int) (state []byte, fewer bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	copies := maps.Clone(c.copies)
	for range halved {
		halveSellers(copies)
	}
	for _, copied := range copies {
		fewer = fewer || len(copied.Offers) > 0
	}
	state, err = json.Marshal(copies)
	return state, fewer, err
}

// write replaces the saved state.
func (c *Cache) write(ctx context.Context, state []byte) (err error) {
	if c.head.Lineage == "" {
		ignoreState := func(journal.Head, []byte) error { return nil }
		if c.head, err = c.Journal.Load(ctx, ignoreState, ignoreRecord); err != nil {
			return err
		}
	}
	if c.head, err = c.Journal.Append(ctx, c.head, [][]byte{[]byte(`{}`)}); err == nil {
		err = c.Journal.Snapshot(ctx, c.head, journal.State(state))
	}
	if err != nil {
		c.head = journal.Head{} // another agent may have written: the next write reads it again
	}
	return err
}

func (c *Cache) noteChange() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Token returns from where the watch of a session continues with the catalog. Empty: it need not send the
// catalog, because it sells what this cluster sells.
func (c *Cache) Token(via string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch copied := c.copies[via]; {
	case via == c.Cluster:
		return ""
	case copied == nil || copied.Token == "":
		return everything
	default:
		return copied.Token
	}
}

// DropToken makes the next watch of a session start from the beginning: the broker refused the token.
func (c *Cache) DropToken(via string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if copied := c.copies[via]; copied != nil {
		copied.Token = ""
	}
}

// Forget drops the copy of a broker that was removed.
func (c *Cache) Forget(via string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.copies, via)
	c.noteChange()
}

// Record takes in what a watch says of the catalog.
func (c *Cache) Record(via string, e api.WatchEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	copied := c.copies[via]
	switch e.Type {
	case api.WatchCatalog:
		if copied == nil {
			copied = &offerCopy{shown: *newShown()}
			c.copies[via] = copied
		}
		copied.begin(e.Complete)
	case api.WatchSeller:
		if copied != nil {
			copied.record(e.Seller, func(size int) bool { return c.admit(via, size) })
		}
	case api.WatchBookmark:
		if copied != nil && copied.complete(e.Token, metav1.NewTime(c.Clock.Now())) {
			c.noteChange()
		}
	}
}

// MarkLost notes that the watch of a session ended. The first call after news saves until when the copy
// was up to date; repeated calls save nothing.
func (c *Cache) MarkLost(via string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	copied := c.copies[via]
	if copied == nil {
		return
	}
	copied.pending = nil
	if copied.changed = false; copied.live {
		copied.live = false
		c.noteChange()
	}
}

// Routes returns the routes with a copy.
func (c *Cache) Routes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.copies))
}

// Size returns how many offers there are copies of, and when the newest copy was up to date.
func (c *Cache) Size() (offers int, asOf time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := map[string]bool{}
	for _, copied := range c.copies {
		if copied.AsOf.After(asOf) {
			asOf = copied.AsOf.Time
		}
		for _, all := range copied.Offers {
			for _, l := range all {
				known[l.ID] = true
			}
		}
	}
	return len(known), asOf
}
