package robustness

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/robustness/member"
)

// Twenty members send the largest of everything as fast as they can, each on several connections.
// The broker lives, serves a member that behaves, and stays small. How fast is a matter of `make
// bench` (hostile).
func TestHostileMembersUnderLoad(t *testing.T) {
	t.Parallel()
	b := newProcess(t)
	b.start()
	honest, lender := b.join("honest"), b.join("lender")
	if err := lender.Offer(t.Context(), cpu(1_000_000)); err != nil {
		t.Fatal(err)
	}
	var foes []*member.Member
	for i := range 20 {
		foes = append(foes, b.join(fmt.Sprintf("foe-%02d", i)))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	var sent, served atomic.Int64
	for i, foe := range foes {
		for n := range 3 {
			all.Go(func() {
				for made := 0; ctx.Err() == nil; made++ {
					sent.Add(1)
					if attack(ctx, foe, foes[(i+1)%len(foes)], fmt.Sprintf("%d-%d", n, made), made) == nil {
						served.Add(1)
					}
				}
			})
		}
	}
	var took []time.Duration
	lasts := func(since time.Time) bool {
		took := time.Since(since)
		return took < 5*time.Second || took < patience && sent.Load() < 1000
	}
	for n, began := 0, time.Now(); lasts(began); n++ {
		if err := lender.Offer(t.Context(), cpu(1_000_000)); err != nil { // what was said before is stale after 90 s
			t.Errorf("the lender: %v", err)
			break
		}
		begin := time.Now()
		r, err := honest.Reserve(t.Context(), fmt.Sprint("honest-", n), api.Request{Resources: cpu(100)})
		if err != nil || r.Payload.State != api.Held {
			t.Errorf("request %d of the honest member is %s, %v", n, r.Payload.State, err)
			break
		}
		took = append(took, time.Since(begin))
		answer, err := http.Get("http://" + b.metrics + "/livez")
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("/livez says %v, %v", answer, err)
			break
		}
		answer.Body.Close()
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	all.Wait()
	if len(took) == 0 {
		return // it failed
	}
	slices.Sort(took)
	memory, disk := resident(t, b.life.cmd.Process.Pid), int64(0)
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(b.journal() + suffix); err == nil {
			disk += info.Size()
		}
	}
	t.Logf("%d calls of foes, %d were not refused; %d of the honest member, the slowest took %s; %d MiB of memory, %d MiB of disk",
		sent.Load(), served.Load(), len(took), took[len(took)-1].Round(time.Millisecond), memory>>20, disk>>20)
	if memory > 2<<30 || disk > 2<<30 {
		t.Errorf("the broker takes %d MiB of memory and %d MiB of disk", memory>>20, disk>>20)
	}
	if sent.Load() < 1000 {
		t.Errorf("only %d calls: nothing was tested", sent.Load())
	}
	b.balanced()
}

// attack is one of the largest calls that a member can make: each kind in turn.
func attack(ctx context.Context, foe, friend *member.Member, key string, turn int) error {
	request := api.Request{Resources: cpu(1), Where: "region == '" + strings.Repeat("x", 1900) + "'"}
	for i := range 60 {
		request.Exclude = append(request.Exclude, fmt.Sprintf("%s-%d", strings.Repeat("e", 58), i))
	}
	switch turn % 3 {
	case 0: // rejected
		_, err := foe.Reserve(ctx, key, request)
		return err
	case 1: // held, and cancelled
		request.Where = ""
		r, err := foe.Reserve(ctx, key, request)
		if err == nil && r.Payload.State == api.Held {
			_, err = foe.Release(ctx, r.ID, foe.End(r, api.ReasonReleased))
		}
		return err
	}
	accounts := map[string]api.AccountUse{}
	for i := range 500 {
		accounts[fmt.Sprintf("c-%d", i)] = api.AccountUse{Commitments: map[string]api.Resources{"r-" +
			key + fmt.Sprint(i): cpu(1)}}
	}
	return foe.PutAdvertisement(ctx, foe.ID, api.Measurement{
		Sequence: api.Sequence{Incarnation: time.Now().UnixMilli(), Number: time.Now().UnixNano()}, Terms: &api.Terms{},
		Pools: map[string]api.Pool{api.GeneralPool: {Capacity: cpu(1e6),
			Allocatable: cpu(1e6), Shared: cpu(1e6), Accounts: accounts}},
	})
}

// resident is how much memory a process has, in bytes; 0 where that cannot be read.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "statm"))
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(data), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
