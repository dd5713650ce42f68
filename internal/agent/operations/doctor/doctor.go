// Package doctor finds problems of this cluster, each with its remedy.
//
// A [Check] looks for problems of one kind. The wiring lists the checks; to add one, write its type
// beside the others and add it to that list. Start at [Doctor.Diagnose], which runs all of them.
// [Doctor.Run] does so now and then, and shows the result. What a problem is, and how bad, is in
// internal/health.
package doctor

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/peeraddress"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
	"github.com/bourse-dev/bourse/internal/liqo/quantities"
)

const (
	// lookEvery is how often Run looks.
	lookEvery = 10 * time.Minute
	// retryEvery is how soon Run looks again when its result could not be shown.
	retryEvery = 5 * time.Second
	// answersWithin bounds all checks together, so that an API server that stands still keeps nobody from an answer:
	// the client of the local API waits for 30 s.
	answersWithin = 20 * time.Second
	// endsWithin is how long a check may take to end after that. Nobody waits for one that takes longer, such as one
	// that asks the API server for its kinds.
	endsWithin = time.Second
)

// Check looks for problems of one kind.
type Check struct {
	// About is what it looks at, as in "peers could not be checked".
	About string
	Find  func(ctx context.Context) ([]api.Problem, error)
}

// Options say what a Doctor checks.
type Options struct {
	Checks []Check
	// Liqo reads what Liqo and Kubernetes let other clusters do. Nil: there is no Liqo that can be used.
	Liqo client.Reader
	// Show shows the result of each round.
	Show func(ctx context.Context, found []api.Problem) error
	// Clock is the machine's by default.
	Clock clock.Clock
}

// Doctor runs checks.
type Doctor struct {
	Options

	mu   sync.Mutex
	last []api.Problem
}

// New returns a Doctor that has not looked yet.
func New(o Options) *Doctor {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Doctor{Options: o}
}

// Run looks every ten minutes and shows the result, until ctx ends. A result that could not be shown is
// followed by another soon.
func (d *Doctor) Run(ctx context.Context) error {
	for {
		wait := lookEvery
		if err := d.Show(ctx, d.Diagnose(ctx)); err != nil {
			wait = retryEvery
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.Clock.After(wait):
		}
	}
}

// Last returns what Diagnose found last.
func (d *Doctor) Last() []api.Problem {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// Diagnose runs all checks at once and returns the problems, worst first. A check that fails, or has found nothing in
// time, is a problem too.
func (d *Doctor) Diagnose(ctx context.Context) (all []api.Problem) {
	atMost, cancelAll := context.WithTimeout(ctx, answersWithin+endsWithin)
	defer cancelAll()
	forChecks, cancel := context.WithTimeout(atMost, answersWithin)
	defer cancel()
	results := make([]chan result, len(d.Checks))
	for i, c := range d.Checks {
		results[i] = make(chan result, 1)
		go func() {
			found, err := c.Find(forChecks)
			results[i] <- result{found, err}
		}()
	}
	for i, c := range d.Checks {
		r := await(atMost, results[i])
		if all = append(all, r.found...); r.err != nil {
			all = append(all, health.NotChecked.Of(c.About, "", "%s", r.err))
		}
	}
	health.Sort(all)
	if ctx.Err() != nil { // its caller is gone, and so the checks found nothing
		return all
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = all
	return all
}

// result is what a check found.
type result struct {
	found []api.Problem
	err   error
}

// await returns the result of a check, or why there is none in time.
func await(ctx context.Context, answers chan result) result {
	select {
	case r := <-answers:
		return r
	case <-ctx.Done():
	}
	select {
	case r := <-answers:
		return r
	default:
		return result{err: ctx.Err()}
	}
}

// Audit returns what Liqo and Kubernetes let another cluster do here. Errors: NotFound.
func (d *Doctor) Audit(ctx context.Context, cluster string) (*api.Audit, error) {
	if d.Liqo == nil {
		return &api.Audit{Cluster: cluster}, nil
	}
	audit, err := posture.Audit(ctx, d.Liqo, cluster)
	return audit, kubeobject.Error(err)
}

// Preflight checks a cluster through a kubeconfig, before it has an agent. Errors: Unavailable.
func Preflight(ctx context.Context, config *rest.Config, liqoNamespace string) (api.Diagnosis, error) {
	checked := &quantities.Checked{}
	c, err := client.New(checked.Wrap(config), client.Options{Scheme: scheme.New()})
	if err != nil {
		return api.Diagnosis{}, api.Errorf(api.CodeUnavailable, "the cluster does not answer: %s", err).
			Fix("check that kubectl works with this kubeconfig")
	}
	known, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return api.Diagnosis{}, api.Errorf(api.CodeUnavailable, "the cluster does not answer: %s", err).
			Fix("check that kubectl works with this kubeconfig")
	}
	inspection := posture.Inspection{
		Reader: c, Lists: c, Writer: c, Before: true, Lends: true,
		Namespace: liqoNamespace, LiqoNamespace: liqoNamespace, Dial: peeraddress.Anywhere().DialTLS,
		Installed: func() (bool, error) { return liqo.Installed(c.RESTMapper()) },
		Served:    (&liqo.Probe{OpenAPI: known.OpenAPIV3()}).Served,
	}
	all := inspection.Problems(ctx)
	unreadable, err := checked.Problems(ctx, c)
	if all = append(all, unreadable...); err != nil {
		all = append(all, health.NotChecked.Of("the amounts of Liqo's objects", "", "%s", err))
	}
	health.Sort(all)
	return api.Diagnosis{Problems: all}, nil
}
