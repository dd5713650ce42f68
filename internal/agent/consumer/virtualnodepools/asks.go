package virtualnodepools

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
	"github.com/bourse-dev/bourse/internal/vnp"
)

const (
	// maxFits is how many clusters an answer has. A request excludes at most maxExcluded providers, and names
	// at most maxStickTo of several that are to be considered.
	maxFits, maxExcluded, maxStickTo = 8, 64, 16
	// An ask that led to nothing is repeated once a broker says that there is more, or after forgetAfter, and forEach
	// of many asks. It is repeated after firstAsk at the earliest, and each time after twice as long, up to askEvery.
	firstAsk, askEvery, forgetAfter, forEach = time.Second, 10 * time.Second, 5 * time.Minute, time.Second
	// maxAnswers is how many answers are kept whole. Of maxNothing asks is kept that no cluster has room.
	maxAnswers, maxNothing = 256, 8192
)

// Brokers are those that this cluster joined.
type Brokers interface {
	// FitAt asks a broker, the first that answers if the name is empty, how much of a request fits where.
	FitAt(ctx context.Context, broker string, q api.EvaluationCreate) (api.Evaluation, error)
	// Reached reports whether a broker answers.
	Reached() bool
	// Latency is how long this agent takes to open a connection to a provider's API server. Zero: it says no
	// address that can be reached by now.
	Latency(ctx context.Context, provider string) (time.Duration, error)
	// Cluster returns what a broker shows of a cluster.
	Cluster(ctx context.Context, id string) (api.Envelope[api.Cluster], error)
	// Grown changes when a broker says that a cluster has more capacity than before.
	Grown() int64
	// OnHeard sets what is called when a broker says something, or is lost.
	OnHeard(do func())
}

// brokerState is the state of the brokers: whether one answers, and how often their capacity grew.
type brokerState struct {
	reached bool
	grown   int64
}

func (c *Controller) readBrokerState() brokerState {
	return brokerState{c.options.Brokers.Reached(), c.options.Brokers.Grown()}
}

// recheckPools looks at all pools again if the state of the brokers changed.
func (c *Controller) recheckPools() {
	state := c.readBrokerState()
	c.mu.Lock()
	news := c.brokers != state
	c.brokers = state
	c.mu.Unlock()
	if news {
		c.lookAtAll()
	}
}

func (c *Controller) lookAtAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.pools {
		c.changed.Add("", name)
	}
}

// followLedger looks at all pools again when a reservation ends: its provider may serve any of them from then on.
func (c *Controller) followLedger(ctx context.Context) error {
	self := c.options.Market.Self()
	c.options.Market.Follow(ctx, self, func(changed []*market.Reservation) {
		if slices.ContainsFunc(changed, func(r *market.Reservation) bool { return r.Consumer == self && r.State.Over() }) {
			c.lookAtAll()
		}
	})
	return nil
}

// answers are those of a broker to asks that led to nothing, by ask.
type answers struct {
	grown int64
	since time.Time
	wait  time.Duration // until it may ask again, if a broker says that there is more, or did not answer
	none  bool          // one was not answered
	by    map[askKey]vnp.Answer
}

// askKey is the digest of an ask.
type askKey [sha256.Size]byte

// nothing is the answer that no cluster has room.
var nothing = vnp.Answer{Fits: &api.Fits{}}

// keep keeps an answer for the next ask of the same. Beyond maxAnswers it keeps only that no cluster has room,
// or that none answered, without the reason.
func (a *answers) keep(key askKey, answer vnp.Answer) {
	switch many := len(a.by) >= maxAnswers; {
	case many && answer.Fits == nil:
		answer = vnp.Answer{}
	case many && (len(answer.Named) > 0 || answer.TooFar):
		return
	case many:
		answer = nothing
	}
	for known := range a.by {
		if len(a.by) < maxNothing {
			break
		}
		delete(a.by, known)
	}
	a.by[key] = answer
}

// renew forgets answers that may be others now. It returns when to try that again.
func (a *answers) renew(grown int64, now time.Time) (again time.Time) {
	wait, after := max(a.wait, firstAsk), max(forgetAfter, time.Duration(len(a.by))*forEach)
	if grown != a.grown || a.none {
		after = wait
	}
	if len(a.by) > 0 {
		if at := a.since.Add(after); now.Before(at) {
			return at
		}
		wait = min(2*wait, askEvery)
	}
	*a = answers{grown: grown, since: now, wait: wait, by: map[askKey]vnp.Answer{}}
	return time.Time{}
}

// plan lets the planner plan, and asks the broker as often as it needs.
func (c *Controller) plan(ctx context.Context, pool *api.VirtualNodePool, m *memory, children *children) *vnp.Plan {
	again := m.answers.renew(c.options.Brokers.Grown(), children.seen.Now)
	children.seen.Answer = func(ask vnp.Ask) vnp.Answer { return c.answer(ctx, pool, m, children, ask) }
	plan := m.planner.Plan(children.seen)
	if plan.Limited == vnp.BrokerUnavailable && m.answers.none {
		again = m.answers.since.Add(m.answers.wait)
	}
	if full := children.full(); plan.Limited != "" && len(full) > 0 {
		plan.Message += "; " + strings.Join(full, "; ")
	}
	switch {
	case slices.ContainsFunc(plan.Steps, grows):
		m.answers = answers{}
	case plan.Limited != "" && !again.IsZero():
		plan.LookAgain(again)
	}
	return plan
}

// answer returns the broker's answer to an ask, or that to the same ask before.
func (c *Controller) answer(ctx context.Context, pool *api.VirtualNodePool, m *memory, children *children,
	ask vnp.Ask) vnp.Answer {
	q := api.EvaluationCreate{Request: c.request(pool), Fitting: api.Fitting{Fits: maxFits}}
	q.Request.Resources, q.Request.MaxPrice = ask.Size.Resources(), ask.MaxPrice
	q.Request.Exclude = excluded(pool, &children.seen, ask.Without)
	if only := pool.Spec.Providers.Only; len(only) > 1 && len(only) <= maxStickTo {
		q.Request.StickTo = only
	}
	for _, shape := range ask.Pods {
		q.Fitting.Pods = append(q.Fitting.Pods, shape.Requests.Resources())
	}
	text, _ := json.Marshal(q) // quantities have no text that fails
	key := askKey(sha256.Sum256(text))
	known, ok := m.answers.by[key]
	if !ok {
		known = c.askBroker(ctx, pool, m, children, q)
		m.answers.keep(key, known)
	}
	m.answers.none = m.answers.none || known.Fits == nil
	return known
}

// askBroker asks the broker what fits where, and leaves out clusters that cannot serve the pool.
func (c *Controller) askBroker(ctx context.Context, pool *api.VirtualNodePool, m *memory, children *children,
	q api.EvaluationCreate) (out vnp.Answer) {
	found, err := c.options.Brokers.FitAt(ctx, pool.Spec.Template.Broker, q)
	if out.Fits = found.Fits; found.Fits == nil {
		if err != nil {
			out.Why = trust.Text(err.Error())
		}
		return out
	}
	for _, fit := range found.Fits.Clusters {
		out.Named = append(out.Named, fit.Cluster)
	}
	out.More = found.Fits.Qualified > len(out.Named) && len(out.Named) > 0 &&
		!slices.ContainsFunc(out.Named, func(name string) bool { return slices.Contains(q.Request.Exclude, name) })
	var mixed []string
	out.Architectures, mixed = c.dropMixed(ctx, pool, m, found.Fits, &children.seen)
	out.TooFar = c.dropFar(ctx, pool, found.Fits, children)
	if miss := found.Decision.NearestMiss; len(mixed) > 0 {
		out.Why = trust.Text(strings.Join(mixed, ", ")) +
			" has several architectures: to use it, name architectures in template.where"
	} else if miss != nil {
		out.Why = trust.Text(fmt.Sprintf("nearest miss: %s, by %s: %s", miss.Cluster, miss.Filter, miss.Message))
	}
	return out
}

// excluded returns the clusters that an answer is to leave out: first those that an answer named, as others of the
// list may not be there.
func excluded(pool *api.VirtualNodePool, o *vnp.Observation, named []string) []string {
	others := slices.Concat(pool.Spec.Providers.Exclude, o.Avoid)
	slices.Sort(others)
	var out []string
	for _, name := range slices.Concat(named, others) {
		if len(out) < maxExcluded && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
