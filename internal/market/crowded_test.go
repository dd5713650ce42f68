package market_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// large is a request of about 60 KiB.
func large(id string) *market.Hold {
	h := request(id, 1)
	h.Key = "key-" + id
	asked := *h.Request
	asked.Where = strings.Repeat("x", 60<<10)
	h.Request = &asked
	return h
}

// Of one consumer a broker keeps some 28 MiB: beyond that the oldest of what is over is forgotten
// early, and nothing of others.
func TestWhatIsOverIsBounded(t *testing.T) {
	d := newTestBroker(t)
	s := d.state
	apply := func(c market.Command) {
		t.Helper()
		out, err := market.Decide(s, c, d.now)
		if err != nil {
			t.Fatal(err)
		}
		for len(out.Events) > 0 {
			for _, e := range out.Events {
				s.Apply(e)
			}
			out, _ = market.Decide(s, market.Tick{}, d.now)
		}
	}
	made := 0
	ends := func(n int) string {
		for range n {
			id := fmt.Sprint("r-", made)
			made++
			apply(large(id))
			apply(market.Release{ID: id, By: "paris", Generation: 1})
		}
		return fmt.Sprint("r-", made-1)
	}
	other := request("other", 1)
	other.Consumer = "milan"
	apply(other)
	apply(market.Release{ID: "other", By: "milan", Generation: 1})
	check := func(least, most int, last string) {
		t.Helper()
		all := s.Of("paris", 0)
		if n := len(all) - len(s.Live("paris")); n < least || n > most ||
			all[len(all)-1].ID != last || s.Reservation("r-0") != nil {
			t.Errorf("%d are kept, from %s to %s, want %d to %d, to %s", n, all[0].ID, all[len(all)-1].ID, least, most, last)
		}
		if s.Reservation("other") == nil || int(s.MemoryUse().Early) != made-s.Count()[api.Failed]+1 {
			t.Errorf("%v, %+v of %d", s.Count(), s.MemoryUse(), made)
		}
		restored := market.New("")
		snapshot, err := market.Encoded(s)
		if err == nil {
			err = restored.Restore(snapshot)
		}
		if err != nil || len(restored.Of("paris", 0)) != len(all) || restored.Of("paris", 0)[0].ID != all[0].ID {
			t.Errorf("restored (%v), %d are known of %d", err, len(restored.Of("paris", 0)), len(all))
		}
	}
	last := ends(800)
	check(270, 300, last) // 18 MiB
	again := large(last)
	again.ID = "again"
	if out, err := market.Decide(s, again, d.now); err != nil || out.Reservation.ID != last {
		t.Errorf("the key of what ended last makes %s, %v", dump(out.Reservation), err)
	}
	for i := range 450 { // what is not over goes first
		waits := large(fmt.Sprint("w-", i))
		waits.Candidates, waits.Request.Wait = nil, duration("1h")
		apply(waits)
	}
	check(30, 36, "w-449")
}

// What one consumer has pending, held and reserved takes no more memory than its cap, however it is
// made of requests and documents.
func TestBytesOfAConsumerAreCapped(t *testing.T) {
	const most = 1 << 20
	d := newTestBroker(t)
	d.offers("rome", 2, "800")
	held := 0
	for ; ; held++ {
		h := large(fmt.Sprint("r-", held))
		h.Caps.Bytes = most
		if _, err := d.do(h, d.now); err != nil {
			if api.CodeOf(err) != api.CodeCapReached || !strings.Contains(err.Error(), "may have 1024 KiB") {
				t.Fatalf("after %d: %v", held, err)
			}
			break
		}
	}
	if largest := d.state.MemoryUse().Largest; held < 10 || held > 17 || largest > most {
		t.Errorf("%d are held, which take %d bytes", held, largest)
	}
	waits := large("waits")
	waits.Candidates, waits.Request.Wait, waits.Caps.Bytes = nil, duration("1h"), most
	d.fails(api.CodeCapReached, waits)
	small := request("small", 1)
	small.Caps.Bytes = most
	small.Consumer = "milan"
	d.must(small)
	parts := market.HoldTogether{Parts: []*market.Hold{large("p-0"), large("p-1")}}
	parts.Parts[0].Caps.Bytes = most
	d.fails(api.CodeCapReached, parts)
	d.must(market.Release{ID: "r-0", By: "paris", Generation: 1})
	again := large("again")
	again.Caps.Bytes = most
	d.must(again)
	// What is held has space for its documents already.
	before := d.state.MemoryUse().Largest
	d.must(market.Confirm{ID: "again", Consumer: "paris", Generation: 1, Document: strings.Repeat("a", 1000)})
	d.must(market.Accept{ID: "again", Provider: "rome", Generation: 1, Document: strings.Repeat("a", 500)})
	if after := d.state.MemoryUse().Largest; after > before {
		t.Errorf("bound it takes %d bytes more", after-before)
	}
}

// A seller's offers take no more than 4 MiB, with the versions that are kept only for contracts.
func TestBytesOfASellerAreBounded(t *testing.T) {
	d := newTestBroker(t)
	published := 0
	for i := range 300 {
		o := version(t, 1).Offer
		big := *o
		signed := *o.Signed
		signed.Name = fmt.Sprint("offer-", i)
		big.Signed, big.Digest, big.Document = &signed, fmt.Sprint("digest-", i), strings.Repeat("x", 60<<10)
		out, err := market.Decide(d.state, market.Publish{Offer: &big}, d.now)
		if err != nil {
			if api.CodeOf(err) != api.CodeTooLarge {
				t.Fatal(err)
			}
			break
		}
		published++
		for _, e := range out.Events {
			d.state.Apply(e)
		}
	}
	if published < 10 || published > 23 {
		t.Errorf("%d offers of 60 KiB are on sale", published)
	}
	out, err := market.Decide(d.state, market.Withdraw{Seller: "rome", Name: "offer-0"}, d.now)
	if err != nil {
		t.Fatal(err)
	}
	d.state.Apply(out.Events[0])
	if _, err := market.Decide(d.state, market.Publish{Offer: version(t, 1).Offer}, d.now); err != nil {
		t.Errorf("after one was withdrawn: %v", err)
	}
}
