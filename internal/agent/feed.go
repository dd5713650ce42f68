package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/brokerswitch"
	"github.com/bourse-dev/bourse/internal/agent/route"
	"github.com/bourse-dev/bourse/internal/consumer"
	"github.com/bourse-dev/bourse/internal/decoded"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/provider"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// feed is one broker that this cluster deals with, and what it says: one that it joined, or the connector of a cluster, which is
// a broker for that cluster alone. The two halves of the agent are the same towards each; what they remember is in the one Ledger.
type feed struct {
	// via is empty for the main broker, "broker/NAME" for another that was joined, and else the cluster whose connector it is.
	via string
	// off says that people disabled it. Nil: nobody can.
	off    *brokerswitch.Switch
	broker transport.Broker
	// gate is nil at the connector of a seller: this cluster buys there, and nobody borrows from it there.
	gate     *provider.Gate
	borrower *consumer.Borrower
	link     *link
	// greet shows it this cluster's card, before it is watched. Nil: that is done elsewhere.
	greet func(context.Context) error
	// woken tells that it is to be watched at once. Nil: nobody does.
	woken chan struct{}

	mu      sync.Mutex
	says    map[string]*transport.Reservation // by ID
	sizes   map[string]int                    // of those, in memory
	bytes   int                               // the sum of sizes
	whole   bool                              // it has said all since it was last connected
	unheard int                               // how much it said beyond the bounds, since it began to say all
}

// Bounds on what is kept of what a feed says: a number of reservations, and an estimate of their memory in bytes, which is 8 KiB for an
// ordinary one. Without them a seller's connector could fill the agent's memory. A broker speaks of all reservations of this cluster, the
// connector of a seller of those with that seller alone.
const (
	brokerSays, brokerSaysBytes       = 20_000, 160 << 20
	connectorSays, connectorSaysBytes = 1_000, 10 << 20
)

func maxSaid(via string) int {
	if route.IsBroker(via) {
		return brokerSays
	}
	return connectorSays
}

func maxSaidBytes(via string) int {
	if route.IsBroker(via) {
		return brokerSaysBytes
	}
	return connectorSaysBytes
}

// wake has it watched at once, where that waits after an error.
func (f *feed) wake() {
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

// enable lets it be dealt with, or not.
func (f *feed) enable(is bool) {
	if f.off.Set(is) {
		f.wake()
	}
}

// name is that of a broker that was joined.
func (f *feed) name() string { return route.BrokerName(f.via) }

// connected says that its watch is open.
func (f *feed) connected() bool {
	is, _ := f.link.state()
	return is && !f.off.IsOff()
}

// said is what it says of a reservation, nil if nothing.
func (f *feed) said(id string) *transport.Reservation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.says[id]
}

// hear keeps what it says of a reservation, if that concerns this cluster and there is room. It reports whether it is kept.
func (f *feed) hear(r *transport.Reservation) (kept bool) {
	own := r.Payload.Consumer == f.borrower.Cluster || r.Payload.Provider == f.borrower.Cluster
	data, err := json.Marshal(r)
	memory := int(decoded.Cost(data))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(r.ID)
	if !own || err != nil || len(f.says) >= maxSaid(f.via) || f.bytes+memory > maxSaidBytes(f.via) {
		f.unheard++
		unheard.WithLabelValues(cmp.Or(f.via, api.MainBroker)).Inc()
		return false
	}
	if f.sizes == nil {
		f.sizes = map[string]int{}
	}
	f.says[r.ID], f.sizes[r.ID] = r, memory
	f.bytes += memory
	return true
}

// drop forgets what it said of a reservation. The lock is held.
func (f *feed) drop(id string) {
	f.bytes -= f.sizes[id]
	delete(f.says, id)
	delete(f.sizes, id)
}

// tooMuch is how much it said that was not kept.
func (f *feed) tooMuch() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unheard
}

// forget drops what it said of a reservation that is over on both sides.
func (f *feed) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(id)
}

// began notes that a watch began; complete says whether all that it does not tell of is not there.
func (f *feed) began(complete bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.whole = f.whole && !complete; complete {
		clear(f.says)
		clear(f.sizes)
		f.bytes, f.unheard = 0, 0
	}
}

// lost notes that the watch broke: what it does not tell of may be there.
func (f *feed) lost() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.whole = false
}

// ended notes that what a watch begins with was said.
func (f *feed) ended() (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first, f.whole = !f.whole, true
	return first
}

// misses says whether it ought to know a reservation that it does not: both have signed it, and it was made there, or is of the
// connector that is asked in the broker's place.
func (f *feed) misses(ours *market.Reservation) bool {
	return ours != nil && f.lacks(ours.ID) && ours.Acceptance != "" && ours.Assignment != "" &&
		(ours.Bound() || ours.State == api.Releasing) && (ours.Via == f.via || route.IsBroker(ours.Via) && f.via == ours.Provider && ours.Provider != f.borrower.Cluster)
}

// decides reports whether its word counts for a reservation: each has one broker, at which it was made. ours is what the Ledger
// says; nil: it is new. What the parties signed counts whoever passes it on.
func (f *feed) decides(theirs *transport.Reservation, ours *market.Reservation) bool {
	own := f.borrower.Cluster
	switch {
	case f.gate == nil && (ours == nil && theirs.Payload.Provider == own || ours != nil && ours.Provider == own):
		return false
	case ours == nil:
		return true
	case ours.Via == f.via, f.via == own && ours.Provider == own: // its own connector shows what consumers signed there
		return true
	case route.IsBroker(ours.Via) && f.via == ours.Provider: // the seller's connector, in the place of a broker that is away
		return ours.Acceptance != ""
	case ours.Via == own && route.IsBroker(f.via): // the Ledger lost it, and the connector was the first to show it
		change := theirs.Payload.Change
		return ours.AnswerTo(theirs.Payload.Assignment) != "" || change != nil && ours.AnswerTo(change.Assignment) != ""
	}
	return false
}

// passes takes from it what counts although it does not decide: an end that a party signed. It refuses what it brings under the ID
// of another reservation.
func (f *feed) passes(ctx context.Context, theirs *transport.Reservation, ours *market.Reservation) error {
	t := theirs.Payload
	switch {
	case ours == nil:
		return nil
	case t.State.Over() && ours.State.Over():
		f.forget(theirs.ID)
		return nil
	case t.End != "" && ours.Provider == f.borrower.Cluster && f.gate != nil:
		return f.gate.HearEnd(ctx, theirs, ours)
	case t.End != "" && ours.Consumer == f.borrower.Cluster:
		return f.borrower.HearEnd(ctx, theirs, ours)
	case t.State == api.Held && t.Assignment != "" && t.Provider == f.borrower.Cluster && f.gate != nil:
		return f.gate.RefuseID(ctx, theirs)
	}
	return nil
}

// forgot says whether it knows nothing of a reservation that was made there.
func (f *feed) forgot(ours *market.Reservation) bool { return f.lacks(ours.ID) && ours.Via == f.via }

// lacks says whether a reservation is not in all that it has said.
func (f *feed) lacks(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.whole && f.unheard == 0 && f.says[id] == nil
}

// show shows it what both have signed.
func (f *feed) show(ctx context.Context, ours *market.Reservation) error {
	agreement := api.Agreement{Assignment: ours.Assignment, Acceptance: ours.Acceptance}
	if ours.Offer != nil {
		agreement.Offer = ours.Offer.Document
	}
	own := agreement.Assignment
	if ours.Provider == f.borrower.Cluster {
		own = agreement.Acceptance
	}
	vouch, err := trust.Vouch(f.borrower.Key, f.borrower.Cluster, ours.ID, agreement.Assignment, own)
	if err != nil {
		return err
	}
	agreement.Vouch = vouch
	theirs, err := f.broker.Adopt(ctx, ours.ID, agreement)
	if err == nil {
		f.hear(&theirs)
	}
	return err
}

// feeds are those that are open.
type feeds struct {
	mu  sync.Mutex
	all []*feed
}

func (f *feeds) open() []*feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all)
}

// forgot says whether the one where a reservation was made knows nothing of it.
func (f *feeds) forgot(ours *market.Reservation) bool {
	return slices.ContainsFunc(f.open(), func(one *feed) bool { return one.forgot(ours) })
}

// brokers are those that were joined and are enabled, in the order in which they are asked.
func (f *feeds) brokers() (out []*feed) {
	for _, one := range f.open() {
		if route.IsBroker(one.via) && !one.off.IsOff() {
			out = append(out, one)
		}
	}
	slices.SortStableFunc(out, func(a, b *feed) int { return strings.Compare(a.via, b.via) })
	return out
}

// broker is the one that is asked first: the first that is reached, or else the first, which may be nil.
func (f *feeds) broker() (first *feed) {
	for _, one := range f.brokers() {
		if !one.link.away(0) {
			return one
		}
		first = cmp.Or(first, one)
	}
	return first
}

// away says that no broker is reached, for so long.
func (f *feeds) away(long time.Duration) bool {
	return !slices.ContainsFunc(f.brokers(), func(one *feed) bool { return !one.link.away(long) })
}

func (f *feeds) add(one *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, one)
}

func (f *feeds) remove(one *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = slices.DeleteFunc(f.all, func(x *feed) bool { return x == one })
}

// named is the broker of a name, nil if there is none.
func (f *feeds) named(name string) *feed {
	for _, one := range f.open() {
		if route.IsBroker(one.via) && one.name() == name {
			return one
		}
	}
	return nil
}

// lost says that a broker by which something was made is not dealt with, or not reached for so long.
func (f *feeds) lost(via string, long time.Duration) bool {
	return !slices.ContainsFunc(f.brokers(), func(one *feed) bool { return one.via == via && !one.link.away(long) })
}
