package broker

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/atomicfile"
	"github.com/bourse-dev/bourse/internal/market"
)

// Advertisements are soft state: they are checkpointed now and then, so that a broker
// that starts can show what it knew. It does not sell from that.

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
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		view := x.View()
		if view == last {
			continue
		}
		last = view
		if err := writeCheckpoint(filepath.Join(o.Dir, checkpointFile), view); err != nil {
			o.Log.Warn("the advertisements were not checkpointed", "error", err)
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

func loadCheckpoint(ctx context.Context, o Options, x *exchange.Exchange) error {
	data, err := os.ReadFile(filepath.Join(o.Dir, checkpointFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var all map[string]*market.Measured
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	view := x.View()
	maps.DeleteFunc(all, func(cluster string, m *market.Measured) bool { return m == nil || view.Listing(cluster) == nil })
	return x.Recall(ctx, all)
}
