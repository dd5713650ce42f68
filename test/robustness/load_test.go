package robustness

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/test/robustness/member"
)

// deal is the way of one reservation through its life. A step whose answer was lost is taken again, with the
// same words.
type deal struct {
	key      string
	request  api.Request
	consumer *member.Member
	provider *member.Member // once it is held

	step int
	word string // what was signed for the step being taken
	// acknowledged is the newest answer. asked says that there may be a reservation without one.
	acknowledged client.Reservation
	asked        bool
	began        time.Time // before it was asked for
}

// load is members that trade with each other for as long as the broker answers.
type load struct {
	t         *testing.T
	consumers []*member.Member
	providers map[string]*member.Member
	offered   api.Resources // by each provider

	mu    sync.Mutex
	deals []*deal
	lost  int // answers that never came
	ended int // consumers that no longer trade in this run
}

const maxOpen = 6

func newLoad(b *process, consumers, providers int, offered api.Resources) *load {
	b.t.Helper()
	l := &load{t: b.t, providers: map[string]*member.Member{}, offered: offered}
	for i := range providers {
		p := b.join(fmt.Sprintf("provider-%d", i))
		l.providers[p.ID] = p
	}
	for i := range consumers {
		l.consumers = append(l.consumers, b.join(fmt.Sprintf("consumer-%d", i)))
	}
	return l
}

// offer lets every provider say what it has, and what it accepted.
func (l *load) offer() {
	l.t.Helper()
	for _, p := range l.providers {
		if err := p.Offer(l.t.Context(), l.offered); err != nil {
			l.t.Fatal(err)
		}
	}
}

// run trades until ctx ends or the broker no longer answers.
func (l *load) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, c := range l.consumers {
		all.Go(func() {
			l.trade(ctx, c)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.ended++
		})
	}
	for _, p := range l.providers {
		all.Go(func() {
			for ctx.Err() == nil && p.Offer(ctx, l.offered) == nil {
			}
		})
	}
	all.Wait()
	l.ended = 0
}

// made returns how many reservations were begun.
func (l *load) made() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.deals)
}

// waitFor waits until so many reservations were begun, or no consumer trades any more: a broker that has just
// started does not say no, and is left alone. It waits no longer than patience.
func (l *load) waitFor(deals int) {
	trades := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.ended < len(l.consumers)
	}
	for end := time.Now().Add(patience); l.made() < deals && trades() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

func (l *load) trade(ctx context.Context, c *member.Member) {
	for ctx.Err() == nil {
		d := l.next(c)
		switch err := d.take(ctx, l.providers); {
		case err == nil:
		case api.CodeOf(err) == api.CodeInsufficient: // others were faster: it was not recorded
			l.drop(d)
		case api.CodeOf(err) == api.CodeUnavailable:
			l.mu.Lock()
			l.lost++
			l.mu.Unlock()
			return
		case d.ranOut(ctx):
		default:
			l.t.Errorf("%s at step %d: %v", d.key, d.step, err)
			return
		}
	}
}

// next is an open deal of the consumer, or a new one.
func (l *load) next(c *member.Member) *deal {
	l.mu.Lock()
	defer l.mu.Unlock()
	var open []*deal
	for _, d := range l.deals[max(0, len(l.deals)-400):] {
		if d.consumer == c && !d.done() {
			open = append(open, d)
		}
	}
	if len(open) >= maxOpen || len(open) > 0 && rand.IntN(2) == 0 {
		return open[rand.IntN(len(open))]
	}
	d := &deal{key: fmt.Sprintf("deal-%d", len(l.deals)), consumer: c,
		request: api.Request{Resources: cpu(500 + rand.Int64N(3500))}}
	l.deals = append(l.deals, d)
	return d
}

// reject makes a deal that no provider can serve.
func (l *load) reject() {
	l.t.Helper()
	d := &deal{key: "too-large", consumer: l.consumers[0], request: api.Request{Resources: cpu(1_000_000)}}
	if err := d.take(l.t.Context(), l.providers); err != nil || d.acknowledged.Payload.State != api.Rejected {
		l.t.Fatalf("%+v, %v", d.acknowledged, err)
	}
	l.deals = append(l.deals, d)
}

func (l *load) drop(d *deal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deals = slices.DeleteFunc(l.deals, func(other *deal) bool { return other == d })
}

func (d *deal) done() bool { return d.acknowledged.Payload.State.Over() && d.acknowledged.ID != "" }

// take takes the next step. Errors: those of the call.
func (d *deal) take(ctx context.Context, providers map[string]*member.Member) (err error) {
	r := d.acknowledged
	if d.word == "" {
		d.word = d.sign()
	}
	switch d.step {
	case 0:
		d.asked, d.began = true, cmp.Or(d.began, time.Now())
		if r, err = d.consumer.Reserve(ctx, d.key, d.request); err == nil {
			d.provider = providers[r.Payload.Provider]
		}
	case 1:
		r, err = d.consumer.Confirm(ctx, r.ID, d.word)
	case 2:
		r, err = d.provider.Accept(ctx, r.ID, d.word)
	case 3:
		r, err = d.consumer.Release(ctx, r.ID, d.word)
	case 4:
		d.provider.Forget(r.ID)
		r, err = d.provider.Progress(ctx, r.ID, api.Released)
	}
	if err == nil {
		d.acknowledged, d.word = r, ""
		d.step++
	}
	return err
}

// ranOut says whether a deal has expired, and takes that as its newest answer. On a slow machine it may wait for
// longer than it is held.
func (d *deal) ranOut(ctx context.Context) bool {
	now, err := d.consumer.Reservation(ctx, d.acknowledged.ID)
	if err != nil || !d.mayBe(now) {
		return false
	}
	d.acknowledged = now
	if d.provider != nil {
		d.provider.Forget(now.ID)
	}
	return true
}

// mayBe says whether a deal may have expired, as its reservation says.
func (d *deal) mayBe(now client.Reservation) bool {
	return now.Payload.State == api.Expired && time.Since(d.began) >= market.HoldTime
}

// sign signs what the step needs.
func (d *deal) sign() string {
	switch d.step {
	case 1:
		return d.consumer.Assign(d.acknowledged)
	case 2:
		return d.provider.Agree(d.acknowledged)
	case 3:
		return d.consumer.End(d.acknowledged, api.ReasonReleased)
	}
	return ""
}
