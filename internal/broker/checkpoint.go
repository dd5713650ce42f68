package broker

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/atomicfile"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/payload"
)

// Advertisements are soft state. They are saved in intervals, so that a broker that starts can show the
// last ones. It does not sell from them.

const (
	checkpointEvery = 30 * time.Second
	checkpointFile  = "advertisements.json"
)

func keepCheckpoint(ctx context.Context, o Options, x *exchange.Exchange) error {
	ticker := time.NewTicker(checkpointEvery)
	defer ticker.Stop()
	var last *market.View
	for {
		select {
		case <-ctx.Done(): // one last time
		case <-ticker.C:
		}
		if view := x.View(); view != last {
			last = view
			if err := writeCheckpoint(filepath.Join(o.Dir, checkpointFile), view); err != nil {
				o.Log.Warn("the advertisements were not checkpointed", "error", err)
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

func writeCheckpoint(path string, view *market.View) error {
	all := make(map[string]*market.Measured, view.Len())
	for slot := range view.Len() {
		if l := view.At(slot); l.Measured != nil {
			all[l.Cluster] = l.Measured
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, data)
}

// checkpoint holds the measurement of each cluster. Read it with readCheckpoint.
type checkpoint func() (map[string]*market.Measured, error)

// readCheckpoint reads it in the background, while the market is loaded.
func readCheckpoint(dir string) checkpoint {
	read := sync.OnceValues(func() (all map[string]*market.Measured, err error) {
		data, err := os.ReadFile(filepath.Join(dir, checkpointFile))
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		if err == nil {
			err = payload.Unmarshal(data, &all)
		}
		return all, err
	})
	go func() { _, _ = read() }()
	return read
}

// recall gives the market the saved measurements of its members.
func recall(ctx context.Context, x *exchange.Exchange, known checkpoint) error {
	all, err := known()
	if err != nil || len(all) == 0 {
		return err
	}
	view := x.View()
	maps.DeleteFunc(all, func(cluster string, m *market.Measured) bool { return m == nil || view.Listing(cluster) == nil })
	return x.Recall(ctx, all)
}
