package pools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/vnp"
)

const (
	// maxFits is how many clusters an answer has. A request excludes at most maxExcluded providers, and names
	// at most maxStickTo of several that are to be considered.
	maxFits, maxExcluded, maxStickTo = 8, 64, 16
	// An ask that led to nothing is repeated once a broker says that there is more, or after forgetAfter. It is
	// repeated after firstAsk at the earliest, and each time after twice as long, up to askEvery.
	firstAsk, askEvery, forgetAfter = time.Second, 10 * time.Second, 5 * time.Minute
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
	is := c.readBrokerState()
	c.mu.Lock()
	news := c.heard != is
	c.heard = is
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
	var self string
	err := c.options.Market.Read(ctx, func(s *market.State) { self = s.Self })
	if err != nil {
		return nil // the market or the agent ends
	}
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
	by    map[string]answer
}

type answer struct {
	fits   *api.Fits
	miss   *api.Miss         // the cluster that came closest
	tooFar bool              // clusters are left out
	mixed  []string          // these, because of their architectures
	of     map[string]string // the architectures of the others
	err    error
}

// renew forgets answers that may be others now. It returns when to try that again.
func (a *answers) renew(grown int64, now time.Time) (again time.Time) {
	wait, after := max(a.wait, firstAsk), forgetAfter
	if grown != a.grown || a.none {
		after = wait
	}
	if len(a.by) > 0 {
		if at := a.since.Add(after); now.Before(at) {
			return at
		}
		wait = min(2*wait, askEvery)
	}
	*a = answers{grown: grown, since: now, wait: wait, by: map[string]answer{}}
	return time.Time{}
}

// plan lets the planner plan, and asks the broker as often as it needs.
func (c *Controller) plan(ctx context.Context, pool *api.VirtualNodePool, m *memory, children *children) *vnp.Plan {
	o := children.seen
	again := m.answers.renew(c.options.Brokers.Grown(), o.Now)
	plan := m.planner.Plan(o)
	var last answer
	for plan.Ask != nil {
		q := api.EvaluationCreate{Request: c.request(pool), Fitting: api.Fitting{Fits: maxFits}}
		q.Request.Resources, q.Request.MaxPrice = plan.Ask.Size.Resources(), plan.Ask.MaxPrice
		q.Request.Exclude = excluded(pool, &o)
		if only := pool.Spec.Providers.Only; len(only) > 1 && len(only) <= maxStickTo {
			q.Request.StickTo = only
		}
		for _, shape := range plan.Ask.Pods {
			q.Fitting.Pods = append(q.Fitting.Pods, shape.Requests.Resources())
		}
		key, _ := json.Marshal(q) // quantities have no text that fails
		known, is := m.answers.by[string(key)]
		if !is {
			found, err := c.options.Brokers.FitAt(ctx, pool.Spec.Template.Broker, q)
			known = answer{fits: found.Fits, miss: found.Decision.NearestMiss, err: err}
			known.of, known.mixed = c.dropMixed(ctx, pool, m, found.Fits, &o)
			known.tooFar = c.dropFar(ctx, pool, found.Fits, children)
			m.answers.by[string(key)] = known
		}
		if known.fits == nil {
			plan.Limited, plan.Message = vnp.BrokerUnavailable, "the broker does not say what fits"
			if known.err != nil {
				plan.Message += ": " + known.err.Error()
			}
			plan.Ask, m.answers.none, again = nil, true, m.answers.since.Add(m.answers.wait)
			break
		}
		o.TooFar, o.Fits, o.Halved, last = known.tooFar, known.fits, plan.Ask.Halved, known
		o.Architectures = known.of
		plan = m.planner.Plan(o)
	}
	if plan.Limited == vnp.NoCandidate && len(last.mixed) > 0 {
		plan.Message += fmt.Sprintf("; %s has several architectures: to use it, name architectures in template.where",
			strings.Join(last.mixed, ", "))
	} else if miss := last.miss; plan.Limited == vnp.NoCandidate && miss != nil {
		plan.Message += fmt.Sprintf("; nearest miss: %s, by %s: %s", miss.Cluster, miss.Filter, miss.Message)
	}
	if plan.Limited != "" && len(children.full) > 0 {
		plan.Message += "; " + strings.Join(children.full, "; ")
	}
	switch {
	case slices.ContainsFunc(plan.Steps, grows):
		m.answers = answers{}
	case plan.Limited != "" && !again.IsZero():
		plan.LookAgain(again)
	}
	return plan
}

func excluded(pool *api.VirtualNodePool, o *vnp.Observation) []string {
	out := slices.Concat(pool.Spec.Providers.Exclude, o.Avoid)
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), maxExcluded)]
}
