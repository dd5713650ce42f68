package ui

import (
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
	// patience is how long a page waits for all its answers. What comes later says so in its place, and is shown when it
	// comes.
	patience = 700 * time.Millisecond
	// lateAfter is how long a question may take before the pages say that its last answer is old.
	lateAfter = 3 * time.Second
)

// source asks the agent. It keeps each answer for questionsEvery, for all pages that are open. While the agent does not
// answer, the last answer stands.
type source struct {
	o       Options
	changed func() // an answer came that a page did not wait for

	mu      sync.Mutex
	answers map[string]*answer
}

// question is what pages ask: its name, and what the answer is called in a sentence, such as "the catalog".
type question struct{ name, what string }

// answer is that to one question.
type answer struct {
	mu      sync.Mutex
	running chan struct{} // closed when the question is answered; nil: nobody asks
	since   time.Time     // when that began
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

// oldest returns when the oldest answer was given.
func (r *reading) oldest() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

// banners say what a page could not read anew, of the broker for its operator, else of the agent.
func (r *reading) banners(operator bool) []pages.Banner {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stale == nil {
		return nil
	}
	who, fix := "agent", "bourse doctor"
	if operator {
		who, fix = "broker", "bourse broker status"
	}
	return []pages.Banner{{Tone: pages.Bad, Fix: fix, Text: "The " + who + " does not answer: " +
		api.WithoutCode(r.stale.Error()) + ". Its last answers are shown, those of " + r.at.UTC().Format("15:04:05") + " UTC."}}
}

var errSlow = api.Errorf(api.CodeUnavailable, "the agent has not answered yet").FixBy("see", "bourse", "doctor")

// ask returns the answer to a question. Each is asked once at a time, at most each questionsEvery, and more rarely if its
// answers take long. It waits for ctx: an answer that is late is shown when it comes. Errors: [pages.Loads] while the
// first answer is on its way; those of the last call.
func ask[T any](ctx context.Context, s *source, q question, call func(context.Context) (T, error)) (T, error) {
	a := s.answerTo(q)
	a.mu.Lock()
	if a.running == nil && time.Since(a.asked) > max(questionsEvery, shareOfAnswers*a.took)-renderEvery/2 {
		a.running, a.since = make(chan struct{}), time.Now()
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
			defer cancel()
			late := time.AfterFunc(lateAfter, s.changed)
			value, err := call(ctx)
			late.Stop()
			a.end(value, err)
			s.changed()
		}()
	}
	running := a.running
	a.mu.Unlock()
	if running != nil {
		select {
		case <-running:
		case <-ctx.Done():
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	value, _ := a.value.(T)
	err := a.err // while it is asked again, too
	if a.running != nil && err == nil {
		if a.known.IsZero() {
			return value, pages.Loads(q.what, s.stage(ctx), a.since)
		}
		if time.Since(a.since) >= lateAfter {
			err = errSlow
		}
	}
	r, _ := ctx.Value(readingKey{}).(*reading)
	switch {
	case a.known.IsZero(), err != nil && !isAway(err):
		return value, err
	case r != nil:
		r.note(a.known, err)
	}
	return value, nil
}

// answerTo returns what is known of a question.
func (s *source) answerTo(q question) *answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.answers[q.name]
	if a == nil {
		if len(s.answers) >= mostAnswers {
			clear(s.answers)
		}
		a = &answer{}
		s.answers[q.name] = a
	}
	return a
}

// stage says who is asked, and how.
func (s *source) stage(ctx context.Context) string {
	r, ofPage := ctx.Value(readingKey{}).(*reading)
	switch {
	case s.o.Broker != nil:
		return "the broker is asked"
	case ofPage && r == nil: // see ofObjects
		return "the API server is asked"
	}
	return "the agent is asked through the API server"
}

// end notes the answer to a question.
func (a *answer) end(value any, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked, a.err = time.Now(), err
	if err == nil {
		a.value, a.known, a.took = value, a.asked, a.asked.Sub(a.since)
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
	return ask(ctx, s, question{"status", "the name of the cluster"}, s.o.Acts.Status)
}

func (s *source) diagnosis(ctx context.Context) (api.Diagnosis, error) {
	return ask(ctx, s, question{"diagnosis", "the problems"}, s.o.Acts.Diagnose)
}

// between returns the reservations between the cluster and another one.
func (s *source) between(ctx context.Context, other string) ([]client.Reservation, error) {
	return ask(ctx, s, question{"between/" + other, "the reservations between the clusters"}, func(ctx context.Context) ([]client.Reservation, error) {
		all, err := s.o.Acts.Reservations(ctx)
		return slices.Clip(slices.DeleteFunc(all, func(r client.Reservation) bool {
			return r.Payload.Provider != other && r.Payload.Consumer != other
		})), err
	})
}

func (s *source) reservation(ctx context.Context, id string) (client.Reservation, error) {
	return ask(ctx, s, question{"reservation/" + id, "the decision"}, func(ctx context.Context) (client.Reservation, error) {
		return s.o.Acts.Reservation(ctx, id)
	})
}

func (s *source) clusters(ctx context.Context) ([]pages.Neighbour, error) {
	return ask(ctx, s, question{"clusters", "the clusters"}, func(ctx context.Context) ([]pages.Neighbour, error) {
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
	return ask(ctx, s, question{"cluster/" + name, "the cluster"}, func(ctx context.Context) (api.Envelope[api.Cluster], error) {
		return s.o.Acts.Cluster(ctx, name)
	})
}

func (s *source) brokers(ctx context.Context) ([]api.Envelope[api.KnownBroker], error) {
	return ask(ctx, s, question{"brokers", "the brokers"}, s.o.Acts.Brokers)
}

func (s *source) impact(ctx context.Context, namespace, name string) (api.Impact, error) {
	return ask(ctx, s, question{"impact/" + namespace + "/" + name, "what would end"}, func(ctx context.Context) (api.Impact, error) {
		return s.o.Acts.Impact(ctx, namespace, name)
	})
}

func (s *source) offers(ctx context.Context) ([]api.Envelope[api.Listing], error) {
	return ask(ctx, s, question{"offers", "the catalog"}, func(ctx context.Context) ([]api.Envelope[api.Listing], error) {
		return s.o.Acts.Catalog(ctx, api.CatalogQuery{})
	})
}

func (s *source) audit(ctx context.Context, cluster string) (api.Audit, error) {
	return ask(ctx, s, question{"audit/" + cluster, "what the cluster can do here"}, func(ctx context.Context) (api.Audit, error) {
		return s.o.Acts.Audit(ctx, cluster)
	})
}
