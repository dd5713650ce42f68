package kube

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/test/raced"
)

// counted counts the bytes of all objects that are written.
func counted(bytes *atomic.Int64) interceptor.Funcs {
	count := func(o client.Object) {
		encoded, _ := json.Marshal(o)
		bytes.Add(int64(len(encoded)))
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			count(o)
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			count(o)
			return c.Update(ctx, o, opts...)
		},
	}
}

// What is written to the API server for each append is bounded, also where the Ledger is large.
func TestBytesWrittenForAnAppend(t *testing.T) {
	raced.Skip(t)
	var written atomic.Int64
	j := agent(t, newCluster(), counted(&written))
	random := rand.NewChaCha8([32]byte{})
	noise := func(n int) []byte {
		data := make([]byte, n)
		random.Read(data)
		return data
	}
	head, state := load(t, j).Head, noise(2<<20)
	if err := j.Snapshot(t.Context(), head, journal.State(state)); err != nil {
		t.Fatal(err)
	}
	written.Store(0)
	const appends = 200
	for range appends {
		var err error
		if head, err = j.Append(t.Context(), head, [][]byte{noise(1000)}); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d bytes for an append of 1,000", written.Load()/appends)
	if written.Load()/appends > 32<<10 {
		t.Errorf("%d bytes are written for an append of 1,000, want at most %d", written.Load()/appends, 32<<10)
	}
}

// Somebody has the market append and fold without a pause. What is written in five minutes, after
// which etcd compacts, stays well under its quota; in the first seconds nothing waits.
func TestBytesWrittenInFiveMinutes(t *testing.T) {
	raced.Skip(t)
	synctest.Test(t, func(t *testing.T) {
		var written atomic.Int64
		j := agent(t, newCluster(), counted(&written))
		// soon used up
		j.paces = paces{rate.NewLimiter(appendRate, appendBurst/128), rate.NewLimiter(snapshotRate, snapshotBurst/64)}
		random := rand.NewChaCha8([32]byte{})
		noise := func(n int) []byte {
			data := make([]byte, n)
			random.Read(data)
			return data
		}
		head, state := load(t, j).Head, noise(2<<20)
		begin, appends, event := time.Now(), 0, noise(2000)
		for time.Since(begin) < 10*time.Second {
			var err error
			if head, err = j.Append(t.Context(), head, [][]byte{event}); err != nil {
				t.Fatal(err)
			}
			if appends++; appends <= 16 && time.Since(begin) > 0 {
				t.Errorf("append %d waited %s", appends, time.Since(begin))
			}
			if appends%64 == 0 {
				if err := j.Snapshot(t.Context(), head, journal.State(state)); err != nil {
					t.Fatal(err)
				}
			}
		}
		most := int64(appendBurst/128+snapshotBurst/64) + int64((appendRate+snapshotRate)*time.Since(begin).Seconds()) + 4<<20
		t.Logf("%d appends, %d bytes in %s, at most %d", appends, written.Load(), time.Since(begin), most)
		if j.Size().Waits == 0 {
			t.Error("no write is said to have waited")
		}
		if written.Load() > most {
			t.Errorf("%d bytes were written in %s, want at most %d", written.Load(), time.Since(begin), most)
		}
	})
}
