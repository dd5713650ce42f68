package ui

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// clustersAtOnce is how many clusters are read at once. Of each, only what lists show is kept.
const clustersAtOnce = 200

// mostAnswers bounds the answers that are kept. Filters make their number the user's.
const mostAnswers = 256

const (
	// askWithin bounds a question. The next leader of an agent answers after 15 s.
	askWithin = 40 * time.Second
	// shareOfAnswers bounds how much of the time goes to the answers to one question: a list of 10,000 clusters is no
	// small one.
	shareOfAnswers = 20
	// firstAnswer is how long a page waits for an answer that it never had, and nextAnswer for a newer one.
	firstAnswer, nextAnswer = 8 * time.Second, time.Second
)

// source asks the agent. It keeps each answer for questionsEvery, for all pages that are open. While the agent does not
// answer, the last answer stands.
type source struct {
	o       Options
	changed func() // an answer came that a page did not wait for

	mu      sync.Mutex
	answers map[string]*answer
}

// answer is that to one question.
type answer struct {
	mu      sync.Mutex
	running chan struct{} // closed when the question is answered; nil: nobody asks
	value   any
	known   time.Time     // when value was answered
	asked   time.Time     // when the last question ended
	took    time.Duration // how long the last answer took
	err     error         // of the last question
}

func newSource(o Options) *source {
	return &source{o: o, changed: func() {}, answers: map[string]*answer{}}
}

// forget has every question asked again, after an act of the user.
func (s *source) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.answers {
		a.mu.Lock()
		a.asked = time.Time{}
		a.mu.Unlock()
	}
}

// reading collects what one page reads: how old it is, and why the agent does not answer.
type reading struct {
	mu    sync.Mutex
	at    time.Time // of the oldest answer
	stale error     // why that is not newer; nil: it is new
}

type readingKey struct{}

// note notes how old an answer is.
func (r *reading) note(at time.Time, stale error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.Before(r.at) {
		r.at = at
	}
	if stale != nil {
		r.stale = stale
	}
}

// banners say what a page could not read anew.
func (r *reading) banners() []pages.Banner {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stale == nil {
		return nil
	}
	return []pages.Banner{{Tone: pages.Bad, Fix: "bourse doctor", Text: "The agent does not answer: " +
		api.WithoutCode(r.stale.Error()) + ". Its last answers are shown, those of " + r.at.UTC().Format("15:04:05") + " UTC."}}
}

var errSlow = api.Errorf(api.CodeUnavailable, "the agent has not answered yet").FixBy("see", "bourse", "doctor")

// ask returns the answer to a question, which has a name. Each is asked once at a time, at most each questionsEvery, and
// more rarely if its answers take long. An answer that is late is shown when it comes.
func ask[T any](ctx context.Context, s *source, name string, call func(context.Context) (T, error)) (T, error) {
	s.mu.Lock()
	a := s.answers[name]
	if a == nil {
		if len(s.answers) >= mostAnswers {
			clear(s.answers)
		}
		a = &answer{}
		s.answers[name] = a
	}
	s.mu.Unlock()
	a.mu.Lock()
	patience := nextAnswer
	if a.known.IsZero() {
		patience = firstAnswer
	}
	if a.running == nil && time.Since(a.asked) > max(questionsEvery, shareOfAnswers*a.took)-renderEvery/2 {
		a.running = make(chan struct{})
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
			defer cancel()
			begin := time.Now()
			value, err := call(ctx)
			a.end(value, err, time.Since(begin))
			s.changed()
		}()
	}
	running := a.running
	a.mu.Unlock()
	if running != nil {
		select {
		case <-running:
		case <-ctx.Done():
		case <-time.After(patience):
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	value, _ := a.value.(T)
	err := a.err
	if a.running != nil { // it still is asked
		err = errSlow
	}
	r, _ := ctx.Value(readingKey{}).(*reading)
	switch {
	case a.known.IsZero():
		return value, cmp.Or(err, error(errSlow))
	case err != nil && !isAway(err):
		return value, err
	case r != nil:
		r.note(a.known, err)
	}
	return value, nil
}

// end notes the answer to a question.
func (a *answer) end(value any, err error, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked, a.err = time.Now(), err
	if err == nil {
		a.value, a.known, a.took = value, a.asked, took
	}
	close(a.running)
	a.running = nil
}

// isAway reports whether an error says nothing but that the agent does not answer now.
func isAway(err error) bool {
	code := asError(err).Code
	return code == api.CodeUnavailable || code == api.CodeTooManyRequests
}

func (s *source) status(ctx context.Context) (api.AgentStatus, error) {
	return ask(ctx, s, "status", s.o.Acts.Status)
}

func (s *source) diagnosis(ctx context.Context) (api.Diagnosis, error) {
	return ask(ctx, s, "diagnosis", s.o.Acts.Diagnose)
}

// between returns the reservations between the cluster and another one.
func (s *source) between(ctx context.Context, other string) ([]client.Reservation, error) {
	return ask(ctx, s, "between/"+other, func(ctx context.Context) ([]client.Reservation, error) {
		all, err := s.o.Acts.Reservations(ctx)
		return slices.Clip(slices.DeleteFunc(all, func(r client.Reservation) bool {
			return r.Payload.Provider != other && r.Payload.Consumer != other
		})), err
	})
}

func (s *source) reservation(ctx context.Context, id string) (client.Reservation, error) {
	return ask(ctx, s, "reservation/"+id, func(ctx context.Context) (client.Reservation, error) {
		return s.o.Acts.Reservation(ctx, id)
	})
}

func (s *source) clusters(ctx context.Context) ([]pages.Neighbour, error) {
	return ask(ctx, s, "clusters", func(ctx context.Context) ([]pages.Neighbour, error) {
		var out []pages.Neighbour
		err := eachPage(ctx, s.o.Acts, func(some []api.Envelope[api.Cluster]) { out = append(out, pages.Neighbours(some)...) })
		return slices.Clone(out), err
	})
}

// eachPage reads the clusters that the user may see, some at once, and passes each of these pages on.
func eachPage(ctx context.Context, from interface {
	ClustersAfter(ctx context.Context, after string, limit int) ([]api.Envelope[api.Cluster], string, error)
}, take func([]api.Envelope[api.Cluster])) error {
	for after := ""; ; {
		some, next, err := from.ClustersAfter(ctx, after, clustersAtOnce)
		if take(some); err != nil || next == "" {
			return err
		}
		after = next
	}
}

func (s *source) cluster(ctx context.Context, name string) (api.Envelope[api.Cluster], error) {
	return ask(ctx, s, "cluster/"+name, func(ctx context.Context) (api.Envelope[api.Cluster], error) {
		return s.o.Acts.Cluster(ctx, name)
	})
}

func (s *source) brokers(ctx context.Context) ([]api.Envelope[api.KnownBroker], error) {
	return ask(ctx, s, "brokers", s.o.Acts.Brokers)
}

func (s *source) impact(ctx context.Context, namespace, name string) (api.Impact, error) {
	return ask(ctx, s, "impact/"+namespace+"/"+name, func(ctx context.Context) (api.Impact, error) {
		return s.o.Acts.Impact(ctx, namespace, name)
	})
}

func (s *source) offers(ctx context.Context) ([]api.Envelope[api.Listing], error) {
	return ask(ctx, s, "offers", func(ctx context.Context) ([]api.Envelope[api.Listing], error) {
		return s.o.Acts.Catalog(ctx, api.CatalogQuery{})
	})
}

func (s *source) audit(ctx context.Context, cluster string) (api.Audit, error) {
	return ask(ctx, s, "audit/"+cluster, func(ctx context.Context) (api.Audit, error) {
		return s.o.Acts.Audit(ctx, cluster)
	})
}
