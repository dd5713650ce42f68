// Package borrowing is the consumer's half of what the agent does with Liqo.
//
// [Borrowing] implements the side of a peering in which this cluster borrows (package peering declares it).
// [Borrowing.Serve] makes Liqo's objects what the reservations with a provider say: one slice, and hence one
// virtual node, for each account; the namespaces that requests name are offloaded; pods move away when a
// reservation ends while another one stays. What is done is shown on each ReservationInstruction.
package borrowing

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/debounce"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/transport"
)

// Relay reports the progress of reservations. All open sessions together are one.
type Relay interface {
	Progress(ctx context.Context, id string, state api.State) (transport.Reservation, error)
}

// Inventory knows what pods request. inventory.Inventory is one.
type Inventory interface {
	// UsedOn returns what the pods on a node request, UsedByNamespace the same by the pods' namespace.
	UsedOn(node string) api.Resources
	UsedByNamespace(owner, node string) map[string]api.Resources
	// PodsMoved receives a signal when pods come to nodes or leave them. It is for one receiver.
	PodsMoved() <-chan struct{}
}

// Options say by what means this cluster borrows.
type Options struct {
	Client client.Client
	// Reader reads from the API server, not from a cache.
	Reader client.Reader
	// Market is that of the Ledger. Its clock decides when graces are over.
	Market    *exchange.Exchange
	Relay     Relay
	Peering   *peering.Consumer
	Network   *network.Network
	Slices    *offload.Slices
	Inventory Inventory
	Graces    grant.Graces
	// Namespace is the agent's: requests of VirtualNodePools are there.
	Namespace string
}

// Borrowing is the consumer's side of all peerings. Several goroutines may use it, each for another provider.
type Borrowing struct {
	options    Options
	clock      clock.PassiveClock // that of Peering, the machine's by default
	evictor    *offload.Evictor
	waits      *debounce.Debouncer[string] // what each slice waits for
	offloading sync.Mutex                  // held while namespaces are offloaded: a namespace may use several providers
	asks       asks                        // calls of Offload
	namespaces *offload.Namespaces

	providers sync.Map // by provider, its *state
}

// state is what is known of one provider. Only the goroutine uses it that acts for this provider.
type state struct {
	network    network.State        // that loans ask for
	reported   map[string]time.Time // by reservation, when it was last reported as Active
	lastShown  string               // the reservation at which a look ended that did not show all
	suspension *metav1.Condition    // that the provider's slices show; nil: not known
	checked    map[string]time.Time // by reservation, when its pods were last checked
	full       error                // why namespaces are not mapped there; nil: all are
	heldBack   []string             // these namespaces
	reflection offload.Reflection   // what is copied there
	exposed    map[string]error     // by namespace that is not mapped there, because too much would be copied

	shared   atomic.Bool                    // namespaces that are kept apart use one virtual node
	apart    map[string]map[string]*closing // by virtual node and namespace
	notApart error                          // why they cannot be kept apart; nil: they can
}

// New returns the consumer's side.
func New(o Options) *Borrowing {
	now := cmp.Or[clock.PassiveClock](o.Peering.Clock, clock.RealClock{})
	return &Borrowing{
		options: o, clock: now, waits: debounce.New[string](now),
		evictor:    &offload.Evictor{Reader: o.Reader, Client: o.Client},
		namespaces: &offload.Namespaces{Client: o.Client, Reader: o.Reader, Cluster: o.Peering.Cluster},
	}
}

func (b *Borrowing) state(provider string) *state {
	known, _ := b.providers.LoadOrStore(provider,
		&state{checked: map[string]time.Time{}, reported: map[string]time.Time{}})
	return known.(*state)
}

// Open brings the peering with a provider forward. received is the newest message of the provider,
// nil if there is none. Errors: BadSignature; the API server's.
func (b *Borrowing) Open(ctx context.Context, provider string, received *api.Handshake) (peering.Progress, error) {
	return b.options.Peering.Open(ctx, provider, received)
}

// Serve makes the slices with a provider what its reservations say, and offloads the namespaces
// that they name. It returns what it waits for.
func (b *Borrowing) Serve(ctx context.Context, provider string) (waits string, err error) {
	all, err := b.loans(ctx)
	if err != nil {
		return "", err
	}
	wanted, err := b.offload(ctx, all, provider)
	if err != nil {
		return "", err
	}
	if wanted, err = b.holdBack(ctx, provider, wanted); err != nil {
		return "", err
	}
	if wanted, err = b.protect(ctx, provider, all, wanted); err != nil {
		return "", err
	}
	accounts := map[string][]bound{}
	for _, l := range all {
		if l.Provider == provider {
			accounts[l.Slice()] = append(accounts[l.Slice()], l)
		}
	}
	b.forgetOthers(provider, accounts)
	closed, err := b.keepApart(ctx, provider, accounts, wanted)
	if err != nil {
		return "", err
	}
	nodes, have, err := b.label(ctx, provider, wanted, closed)
	if err != nil {
		return "", err
	}
	labels := slices.Compact(slices.Sorted(slices.Values(slices.Concat(wanted, have))))
	var found []string
	for slice, loans := range accounts {
		message, err := b.ensure(ctx, provider, slice, loans, all, labels)
		if err != nil {
			return "", err
		}
		found = append(found, message)
	}
	shrinks, err := b.shrink(ctx, accounts)
	if err != nil {
		return "", err
	}
	leaves, err := b.leave(ctx, provider, nodes, have, wanted, accounts)
	if err != nil {
		return "", err
	}
	found = slices.DeleteFunc(slices.Concat(found, shrinks, leaves), func(s string) bool { return s == "" })
	slices.Sort(found)
	return strings.Join(found, "; "), nil
}

// label adds the labels of namespaces to the virtual nodes with a provider that are not closed to them, and
// removes those of namespaces that are gone. It returns these nodes, and the namespaces that were offloaded
// there and stay.
func (b *Borrowing) label(ctx context.Context, provider string, wanted []string,
	closed map[string][]string) (nodes, have []string, err error) {
	nodes, have, err = b.namespaces.Nodes(ctx, provider)
	if err != nil {
		return nil, nil, err
	}
	gone, err := b.namespaces.Gone(ctx, have)
	if err != nil {
		return nil, nil, err
	}
	have = slices.DeleteFunc(have, func(name string) bool { return slices.Contains(gone, name) })
	return nodes, have, b.namespaces.SetLabels(ctx, provider, wanted, gone, closed)
}

// forgetOthers drops what is known of reservations with a provider that are over.
func (b *Borrowing) forgetOthers(provider string, accounts map[string][]bound) {
	s := b.state(provider)
	s.checked, s.reported = onlyOf(s.checked, accounts), onlyOf(s.reported, accounts)
	if len(accounts) == 0 {
		s.suspension = &metav1.Condition{Type: api.ConditionSuspended, Status: metav1.ConditionFalse}
	}
}

// onlyOf returns the times of those reservations that accounts still have.
func onlyOf(times map[string]time.Time, accounts map[string][]bound) map[string]time.Time {
	kept := map[string]time.Time{}
	for _, loans := range accounts {
		for _, l := range loans {
			if at, known := times[l.ID]; known {
				kept[l.ID] = at
			}
		}
	}
	return kept
}

// Close takes down what Open made, and reports whether nothing is left. force does not wait for the provider,
// and deletes the pods on its virtual nodes.
func (b *Borrowing) Close(ctx context.Context, provider string, force bool) (done bool, err error) {
	if force {
		slices, err := b.options.Slices.Names(ctx, provider)
		if err != nil {
			return false, err
		}
		for _, slice := range slices {
			if err := b.evictor.Clear(ctx, slice); err != nil {
				return false, err
			}
		}
	}
	if _, err := b.options.Slices.LetGo(ctx, provider, true); err != nil {
		return false, err
	}
	done, err = b.options.Peering.Close(ctx, provider, force)
	if err == nil && done {
		b.providers.Delete(provider)
	}
	return done, err
}

// Suspension returns the condition Suspended of this cluster, as the provider's slices show it. It
// is nil before a slice was looked at.
func (b *Borrowing) Suspension(_ context.Context, provider string) (*metav1.Condition, error) {
	return b.state(provider).suspension, nil
}
