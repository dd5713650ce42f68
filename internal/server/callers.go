package server

import (
	"container/list"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/bourse-dev/bourse/api"
)

const (
	maxCallers = 50_000
	watchCost  = 50   // as how many calls the opening of a watch counts, which makes the market look through all that concerns the caller
	strangers  = 0.01 // what an address without certificate may call, and a cluster key may renew, of what a member may call
	// inOneCall is how many bytes of a body cost as much as one call.
	inOneCall = 2 << 10
	// inOneLook is how many records that the market looks through cost as much as one call.
	inOneLook = 1000
)

// limits bounds the rate of each caller; who has no certificate is counted by address, an IPv6 one by its /64. Renewals, which come without a
// certificate, count apart: an address may send as many as a member may call, because many members can have one address, and each cluster key that
// the market knows has a rate of its own.
type limits struct {
	rate      float64
	mu        sync.Mutex
	members   callers
	strangers callers
	renewals  callers // by address
	keys      callers // that renew
}

// callers are limiters by caller, the one that called last in front. Where there are too many, the one that called longest ago is
// forgotten, but only once its burst is whole again: then it gets nothing more by being new. Until then all new callers share one.
type callers struct {
	by     map[string]*list.Element
	order  list.List
	others *rate.Limiter
}

type callerLimit struct {
	key     string
	limiter *rate.Limiter
}

func (l *limits) allow(c Caller, r *http.Request) bool {
	limiter, cost := l.limiter(c, r), 1
	if r.URL.Path == api.Prefix+"/watch" {
		cost = min(watchCost, limiter.Burst())
	}
	return limiter.AllowN(time.Now(), cost)
}

// allowRefused says whether one more call of an address may be told why it is refused. It counts apart from calls that are let in, so that
// who shares an address with a caller that is refused can still join.
func (l *limits) allowRefused(r *http.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return l.strangers.limiter("refused "+network(r.RemoteAddr), l.rate*strangers, now).AllowN(now, 1)
}

// allowRenewal says whether a cluster key may renew now.
func (l *limits) allowRenewal(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return l.keys.limiter(key, l.rate*strangers, now).AllowN(now, 1)
}

// charge makes a caller that was allowed to call pay for the bytes that it sent: it has to wait longer until its next call.
func (l *limits) charge(c Caller, r *http.Request, bytes int64) {
	if calls := int(bytes / inOneCall); calls > 0 {
		pay(l.limiter(c, r), calls)
	}
}

// chargeWork makes a caller with a certificate pay for the records that the market looked through for its call, in the same way.
func (l *limits) chargeWork(c Caller, records int) {
	if calls := records / inOneLook; calls > 0 && c.Role != "" {
		pay(l.limiter(c, nil), calls)
	}
}

func pay(limiter *rate.Limiter, calls int) { limiter.ReserveN(time.Now(), min(calls, limiter.Burst())) }

func (l *limits) limiter(c Caller, r *http.Request) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Role != "" {
		return l.members.limiter(c.String(), l.rate, time.Now())
	}
	if r.URL.Path == renewPath {
		return l.renewals.limiter(network(r.RemoteAddr), l.rate, time.Now())
	}
	return l.strangers.limiter(network(r.RemoteAddr), l.rate*strangers, time.Now())
}

// network is what a stranger is counted by: its IPv4 address, or the /64 of its IPv6 one, of which it may have all addresses.
func network(remote string) string {
	host, _, _ := net.SplitHostPort(remote)
	address, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if address = address.Unmap().WithZone(""); address.Is6() {
		if prefix, err := address.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return address.String()
}

func (x *callers) limiter(key string, per float64, now time.Time) *rate.Limiter {
	if x.by == nil {
		x.by = map[string]*list.Element{}
	}
	if e := x.by[key]; e != nil {
		x.order.MoveToFront(e)
		return e.Value.(*callerLimit).limiter
	}
	if len(x.by) >= maxCallers {
		oldest := x.order.Back()
		known := oldest.Value.(*callerLimit)
		if known.limiter.TokensAt(now) < float64(known.limiter.Burst()) {
			if x.others == nil {
				x.others = newLimiter(per)
			}
			return x.others
		}
		x.order.Remove(oldest)
		delete(x.by, known.key)
	}
	known := &callerLimit{key, newLimiter(per)}
	x.by[key] = x.order.PushFront(known)
	return known.limiter
}

// newLimiter allows so many calls a second, and twice as many at once.
func newLimiter(per float64) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(per), max(1, int(2*per)))
}
