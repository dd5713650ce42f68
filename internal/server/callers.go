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
	watchCost  = 50 // the opening of a watch counts as this many calls: the market searches all records of the caller
	// rate of an address without certificate, of renewals by a cluster key, and of joins by a token, as a fraction of
	// a member's rate
	strangers = 0.01
	// inOneCall is the number of bytes of a body that cost as much as one call.
	inOneCall = 2 << 10
	// inOneLook is the number of records searched by the market that cost as much as one call.
	inOneLook = 1000
)

// limits bounds the rate of each caller. A caller without a certificate is counted by address, with IPv6
// by its /64. Renewals and joins, which come without a certificate, are counted apart. An address may send as many
// of each as a member may call, because many clusters can share it. Each known cluster key has its own rate for
// renewals, and each token for joins. A join without a known token counts as a stranger's call.
type limits struct {
	rate      float64
	now       func() time.Time
	mu        sync.Mutex
	members   callers
	strangers callers
	renewals  callers // by address
	keys      callers // for renewals
	joins     callers // by address
	tokens    callers // for joins
}

// callers holds the limiters of callers, the most recent first. Above the maximum, the least recent is
// forgotten, but only once its burst is full again, so that it gains nothing by being new. Until then,
// all new callers share one limiter.
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
	return limiter.AllowN(l.now(), cost)
}

// allowRefused reports whether to answer one more refused call of an address. These count apart, so that
// a cluster that shares an address with a refused caller can still join.
func (l *limits) allowRefused(r *http.Request) bool {
	return l.of(&l.strangers, "refused "+network(r.RemoteAddr), l.rate*strangers).AllowN(l.now(), 1)
}

// allowRenewal reports whether a cluster key may renew now.
func (l *limits) allowRenewal(key string) bool {
	return l.of(&l.keys, key, l.rate*strangers).AllowN(l.now(), 1)
}

// allowJoin reports whether a token may be used now; "" stands for all that are not known.
func (l *limits) allowJoin(c Caller, token string) bool {
	if token == "" {
		return l.of(&l.strangers, network(c.Address), l.rate*strangers).AllowN(l.now(), 1)
	}
	return l.of(&l.tokens, token, l.rate*strangers).AllowN(l.now(), 1)
}

// charge makes a caller pay for the bytes that it sent: its next call must wait longer.
func (l *limits) charge(c Caller, r *http.Request, bytes int64) {
	if calls := int(bytes / inOneCall); calls > 0 {
		l.takeTokens(l.limiter(c, r), calls)
	}
}

// ChargeWritten makes a member pay for bytes that the market wrote for its call, as for those that it sends.
func (s *Server) ChargeWritten(c Caller, bytes int) { s.limits.charge(c, nil, int64(bytes)) }

// ChargeSearched makes a member pay for the records that the market searched for its call.
func (s *Server) ChargeSearched(c Caller, records int) { s.limits.chargeWork(c, records) }

// chargeWork makes a caller with a certificate pay for the records that the market searched for its call.
func (l *limits) chargeWork(c Caller, records int) {
	if calls := records / inOneLook; calls > 0 && c.Role != "" {
		l.takeTokens(l.limiter(c, nil), calls)
	}
}

func (l *limits) takeTokens(limiter *rate.Limiter, calls int) {
	limiter.ReserveN(l.now(), min(calls, limiter.Burst()))
}

func (l *limits) limiter(c Caller, r *http.Request) *rate.Limiter {
	switch {
	case c.Role != "":
		return l.of(&l.members, c.String(), l.rate)
	case r.URL.Path == renewPath:
		return l.of(&l.renewals, network(r.RemoteAddr), l.rate)
	case r.URL.Path == joinPath:
		return l.of(&l.joins, network(r.RemoteAddr), l.rate)
	}
	return l.of(&l.strangers, network(r.RemoteAddr), l.rate*strangers)
}

// of returns the limiter of one of the callers, which may make so many calls per second.
func (l *limits) of(all *callers, key string, per float64) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return all.limiter(key, per, l.now())
}

// network returns the key for counting a stranger: its IPv4 address, or the /64 of its IPv6 address, all
// of whose addresses it may have.
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

// newLimiter allows a number of calls per second, and a burst of twice that.
func newLimiter(per float64) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(per), max(1, int(2*per)))
}
