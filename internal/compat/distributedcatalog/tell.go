package distributedcatalog

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/coder/websocket"

	"github.com/bourse-dev/bourse/api"
)

// tell sends what is, and what changes. It returns why it cannot any more.
func (f subscription) tell(ctx context.Context, c *websocket.Conn,
	together *audience, first []Catalog, away bool) error {
	if !f.quiet {
		if err := f.send(ctx, c, first); err != nil {
			return err
		}
	}
	known := together.first(first)
	if f.told != nil {
		f.told()
	}
	ticker := time.NewTicker(f.every)
	defer ticker.Stop()
	looked := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now, err := together.look(ctx, f, time.Since(looked) < lookOften)
		if errors.Is(err, errSame) {
			continue
		}
		looked = time.Now()
		if code := api.CodeOf(err); err != nil && (code == api.CodeUnavailable || code == api.CodeTooManyRequests) {
			if !away {
				if err := f.send(ctx, c, err); err != nil {
					return err
				}
			}
			away = true
			continue
		}
		if err != nil {
			return err
		}
		if away {
			if err := f.send(ctx, c, "Broker is back"); err != nil {
				return err
			}
		}
		away = false
		for _, changed := range updateKnown(known, now) {
			if err := f.send(ctx, c, changed); err != nil {
				return err
			}
		}
	}
}

func (f subscription) send(ctx context.Context, c *websocket.Conn, payload any) error {
	made := f.write(payload)
	if made == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(writeWait, cancel)
	defer late.Stop()
	message, err := c.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	if err := writeJSON(pieces{message, late}, made); err != nil {
		return err
	}
	return message.Close()
}

// pieces writes a piece at a time: each may take its reader as long as writeWait.
type pieces struct {
	io.Writer
	late *time.Timer
}

// Write implements io.Writer.
func (p pieces) Write(data []byte) (written int, err error) {
	for err == nil && written < len(data) {
		p.late.Reset(writeWait)
		var n int
		n, err = p.Writer.Write(data[written:min(len(data), written+perPiece)])
		written += n
	}
	return written, err
}

// updateKnown returns the providers whose catalog changed, and updates known. Of a provider that
// sells nothing any more there is one with its ID and no offers.
func updateKnown(known map[string]digest, now reading) (out []Catalog) {
	gone := map[string]bool{}
	for id := range known {
		gone[id] = true
	}
	for i := range now.catalog {
		c := &now.catalog[i]
		delete(gone, c.ClusterID)
		if digest := now.digests[i]; known[c.ClusterID] != digest {
			known[c.ClusterID] = digest
			out = append(out, *c)
		}
	}
	for id := range gone {
		delete(known, id)
		out = append(out, Catalog{Provider: Provider{ClusterID: id, ClusterName: id}, Offers: []Offer{}})
	}
	slices.SortFunc(out, func(a, b Catalog) int {
		if a.ClusterID < b.ClusterID {
			return -1
		}
		return 1
	})
	return out
}

// digest stands for what a subscriber was told of a provider.
type digest [sha256.Size]byte

func digestOf(c *Catalog) digest {
	data, _ := json.Marshal(c)
	return sha256.Sum256(data)
}
