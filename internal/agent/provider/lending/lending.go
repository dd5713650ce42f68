// Package lending is the provider's half of what the agent does with Liqo.
//
// [Lending] implements the side of a peering in which another cluster borrows (package peering
// declares it). [Lending.Open] first puts the consumer under the admission policies, and proves
// that the policies deny, before the consumer gets anything. Then two controllers
// ([Lending.Control]) grant each slice what the Ledger says, and guard the namespaces that Liqo
// makes for consumers. [Usage] shows what consumers' pods use of that, and deletes those that
// exceed it.
package lending

import (
	"cmp"
	"context"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/guard"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Options say what is lent, and how it is guarded.
type Options struct {
	Client client.Client
	// Reader reads from the API server, not from a cache.
	Reader  client.Reader
	Cluster string
	// Market is that of the Ledger.
	Market   *exchange.Exchange
	Network  *network.Network
	Policies *posture.Policies
	// Sharing returns the SharingPolicy that is in force, nil if none is.
	Sharing func() *api.Sharing
	// Suspension returns the condition Suspended of a consumer, as this cluster's admin says.
	Suspension func(ctx context.Context, consumer string) (metav1.Condition, error)
	Usage      *Usage
	// Clock is the machine's by default.
	Clock clock.PassiveClock
}

// Lending is the provider's side of all peerings. Several goroutines may use it, each for another consumer.
type Lending struct {
	options Options
	peering *peering.Provider

	consumers sync.Map // by consumer whose peering is open or opens, its *state
	plain     sync.Map // by plain consumer, the last proof
}

// state is what is known of the peering with one consumer. Only the goroutine uses it that acts for
// this consumer.
type state struct {
	open   bool
	proof  proof
	listed listing
}

// New returns the provider's side.
func New(o Options) *Lending {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	l := &Lending{options: o}
	l.peering = &peering.Provider{Client: o.Client, Access: l.access, Clock: o.Clock}
	return l
}

func (l *Lending) state(consumer string) *state {
	known, _ := l.consumers.LoadOrStore(consumer, &state{})
	return known.(*state)
}

// Open brings the peering with a consumer forward, under policies that are proven to deny. received
// is the newest message of the consumer, nil if there is none. Before that there is only a nonce,
// which grants nothing, and Open does not wait for the proof. Errors: Conflict where a user or
// group here has the consumer's ID; CapReached; the API server's.
func (l *Lending) Open(ctx context.Context, consumer string, received *api.Handshake) (peering.Progress, error) {
	s := l.state(consumer)
	if !l.proves(s) {
		s.proof = l.prove(ctx, consumer)
	}
	if s.open || received != nil {
		if err := s.proof.holds(); err != nil {
			s.proof = proof{}
			return peering.Progress{}, err
		}
	}
	progress, err := l.openListed(ctx, s, consumer, received)
	s.open = err == nil && progress.Open
	return progress, err
}

// openListed opens a peering while the policies learn of the consumer. It waits for them first,
// unless there is only a nonce. A peering that was made by hand goes on as it is.
func (l *Lending) openListed(ctx context.Context, s *state, consumer string,
	received *api.Handshake) (peering.Progress, error) {
	byHand, err := l.peering.ByHand(ctx, consumer)
	if err != nil {
		return peering.Progress{}, err
	}
	var listed errgroup.Group
	if guarded, _ := l.guards(consumer); !byHand || guarded { // guardPlain first checks what a plain consumer has
		listed.Go(func() error { return l.list(ctx, s, consumer) })
	}
	if s.open || received != nil {
		if err := listed.Wait(); err != nil {
			return peering.Progress{}, err
		}
	}
	progress, err := l.peering.Open(ctx, consumer, received)
	return progress, cmp.Or(listed.Wait(), err)
}

// Serve shows what the consumer uses, and takes back what it gave up. It returns what it waits for.
func (l *Lending) Serve(ctx context.Context, consumer string) (waits string, err error) {
	if err := l.options.Usage.Show(ctx, consumer); err != nil {
		return "", err
	}
	return l.options.Usage.AwaitGivenUp(ctx, consumer)
}

// Close takes down what Open made, and reports whether nothing is left. force does not wait for the consumer.
func (l *Lending) Close(ctx context.Context, consumer string, force bool) (done bool, err error) {
	done, err = l.peering.Close(ctx, consumer, force)
	if err != nil || !done {
		return false, err
	}
	l.consumers.Delete(consumer)
	return true, l.options.Policies.Unlist(ctx, consumer)
}

// Remains names the namespaces that Liqo made for a consumer and that still exist, and what
// Kubernetes says is left in them. A consumer may have many namespaces, and a condition holds at
// most 32 KiB: the text is cut after 1 KiB.
func (l *Lending) Remains(ctx context.Context, consumer string) (string, error) {
	var list corev1.NamespaceList
	if err := l.options.Client.List(ctx, &list, liqo.Of(consumer)); err != nil {
		return "", err
	}
	var all []string
	for i := range list.Items {
		ns := &list.Items[i]
		if !guard.Mapped(ns) {
			continue
		}
		all = append(all, "namespace "+ns.Name+" has not gone")
		for _, c := range ns.Status.Conditions {
			if c.Status == corev1.ConditionTrue {
				all = append(all, c.Message)
			}
		}
	}
	return trust.Text(strings.Join(all, "; ")), nil
}
