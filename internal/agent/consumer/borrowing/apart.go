package borrowing

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
)

const (
	// A namespace whose pods were evicted may try again after firstPause, though nothing changed: smaller pods may
	// fit. The pause doubles up to lastPause while they do not.
	firstPause, lastPause = time.Minute, 16 * time.Minute
	// podsSettle is how long pods that come and go together are one change.
	podsSettle = 200 * time.Millisecond
)

// usedUp is the reason of PodsComply for a request whose namespaces use all that their requests reserve.
const usedUp = "ReservationUsedUp"

// closing is what is remembered of a namespace that used more of a virtual node than its requests reserve there. No
// more of its pods are placed there while it is closed.
type closing struct {
	open bool // it may use the node again, since a time
	over bool // it uses too much
	// used and claimed are what it used, and what its requests had, when it no longer used too much.
	used, claimed amounts.List
	since, began  time.Time // began is when it used too much first
	pause         time.Duration
}

// follow returns what to remember of a namespace at the next look; nil: nothing. It is open again when some of its
// pods have ended, when more is reserved for it, and after a pause. If it used too much as soon as it was open, it waits
// a minute first when pods end: who ends pods again and again would otherwise open and close the node as often.
func (c *closing) follow(over bool, used, claimed amounts.List, now time.Time) *closing {
	switch {
	case c == nil && !over:
		return nil
	case c == nil:
		return &closing{over: true, since: now, began: now, pause: firstPause}
	case over && c.over:
		return &closing{over: true, since: now, began: c.began, pause: c.pause}
	case over:
		pause := c.pause // if it is not open, claims became smaller
		if c.open && now.Sub(c.since) < c.pause {
			pause = min(2*c.pause, lastPause)
		} else if c.open {
			pause = firstPause
		}
		return &closing{over: true, since: now, began: now, pause: pause}
	case c.open && now.Sub(c.since) >= c.pause:
		return nil
	case c.open:
		return c
	case c.over:
		return &closing{used: used, claimed: claimed, since: now, pause: c.pause}
	case !used.Fits(c.used) && (c.pause == firstPause || now.Sub(c.since) >= firstPause),
		len(claimed.Beyond(c.claimed)) > 0, now.Sub(c.since) >= c.pause:
		return &closing{open: true, since: now, pause: c.pause}
	}
	return c
}

// keepApart lets each namespace use of a virtual node what its own requests reserve there, and no more. Who uses more
// is closed: the node loses the label of the namespace, so no more of its pods are placed there, and its youngest
// pods are evicted until the rest fits. It returns the closed namespaces by node. Namespaces that Bourse does not
// offload, and those of a hub's customers, are not kept apart.
func (b *Borrowing) keepApart(ctx context.Context, provider string, accounts map[string][]bound,
	wanted []string) (map[string][]string, error) {
	s := b.state(provider)
	shared := map[string][]claim{}
	for slice, loans := range accounts {
		if claims := b.claims(ctx, loans); !loans[0].Relend && apart(claims, wanted) {
			shared[slice] = claims
		}
	}
	if len(shared) > 0 {
		var peer api.Peer
		key := client.ObjectKey{Namespace: b.options.Namespace, Name: provider}
		if err := b.options.Client.Get(ctx, key, &peer); client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if peer.Spec.ShareReservations {
			shared = nil
		}
	}
	s.notApart = nil
	if s.shared.Store(len(shared) > 0); len(shared) == 0 {
		s.apart = nil
		return nil, nil
	}
	customers, err := b.namespaces.Customers(ctx, b.options.Client)
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(slices.Clone(wanted), func(name string) bool { return customers[name].ID != "" })
	next, found := map[string]map[string]*closing{}, map[string][]overuse{}
	for slice, claims := range shared {
		next[slice], found[slice] = b.judge(slice, claims, own, s.apart[slice])
	}
	closed := closedBy(next)
	if !maps.EqualFunc(closed, closedBy(s.apart), slices.Equal) {
		clear(s.checked) // the conditions of the requests show it now
	}
	if s.apart = next; len(closed) == 0 {
		return nil, nil
	}
	// Without the policies, Liqo would delete a namespace at the provider when a node loses its label.
	if s.notApart = b.options.Slices.Guarded(ctx); s.notApart != nil {
		return nil, nil
	}
	for slice, all := range found {
		for _, o := range all {
			if err := b.takeBack(ctx, provider, slice, o); err != nil {
				return nil, err
			}
		}
	}
	return closed, nil
}

// closedBy returns the closed namespaces by virtual node.
func closedBy(all map[string]map[string]*closing) map[string][]string {
	out := map[string][]string{}
	for slice, names := range all {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if !names[name].open {
				out[slice] = append(out[slice], name)
			}
		}
	}
	return out
}

// claims returns what the loans of a virtual node give to namespaces, one for each set of namespaces.
func (b *Borrowing) claims(ctx context.Context, loans []bound) (out []claim) {
	index := map[string]int{}
	for _, l := range loans {
		c := b.claimOf(ctx, l)
		key := fmt.Sprint(c.namespaces == nil, c.namespaces)
		if i, known := index[key]; known {
			out[i].size = out[i].size.Plus(l.Size)
			continue
		}
		index[key] = len(out)
		out = append(out, c)
	}
	return out
}

// claimOf returns what a loan gives to its namespaces, or to any: the pods of a hub's customers are in namespaces that
// its loans do not name.
func (b *Borrowing) claimOf(ctx context.Context, l bound) claim {
	if l.Relend || l.offload() == nil {
		return claim{nil, l.Size}
	}
	names := []string{}
	for _, name := range l.namespaces() {
		if b.checkAllowed(ctx, name, l) == nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return claim{names, l.Size}
}

// apart reports whether some namespace may not use all claims.
func apart(claims []claim, namespaces []string) bool {
	return slices.ContainsFunc(namespaces, func(name string) bool {
		return slices.ContainsFunc(claims, func(c claim) bool { return !c.admits(name) })
	})
}

// judge returns what to remember of the namespaces at a virtual node, and who uses too much there.
func (b *Borrowing) judge(node string, claims []claim, own []string,
	before map[string]*closing) (map[string]*closing, []overuse) {
	used, others := map[string]amounts.List{}, amounts.List(nil)
	for name, use := range b.options.Inventory.UsedByNamespace("", node) {
		if list := amounts.Clamp(use); slices.Contains(own, name) {
			used[name] = list
		} else {
			others = others.Plus(list)
		}
	}
	claims = slices.Clone(claims)
	for i := range claims {
		if claims[i].namespaces == nil { // others use it first: they have nothing else
			claims[i].size = claims[i].size.Minus(claims[i].size.Min(others))
		}
	}
	found, now := findOveruse(claims, used), b.clock.Now()
	next := map[string]*closing{}
	for _, name := range own {
		over := slices.ContainsFunc(found, func(o overuse) bool { return o.namespace == name })
		var claimed amounts.List
		for _, c := range claims {
			if c.admits(name) {
				claimed = claimed.Plus(c.size)
			}
		}
		if c := before[name].follow(over, used[name], claimed, now); c != nil {
			next[name] = c
		}
	}
	return next, found
}

// takeBack evicts pods of a namespace that uses too much of a virtual node. It waits until the scheduler sees that the
// node is closed to it: else the same pods would come again. After the graces it deletes the pods that a
// PodDisruptionBudget keeps, or that take long to end: each namespace sets those itself.
func (b *Borrowing) takeBack(ctx context.Context, provider, node string, o overuse) error {
	var object corev1.Node
	if err := b.options.Client.Get(ctx, client.ObjectKey{Name: node}, &object); err != nil {
		return client.IgnoreNotFound(err)
	}
	if object.Labels[offload.Label(o.namespace)] != "" {
		return nil
	}
	c := b.state(provider).apart[node][o.namespace]
	late := c != nil && b.clock.Now().Sub(c.began) > b.options.Graces.Shrink+b.options.Graces.Excess
	keep := amounts.List{{Resource: o.resource, Value: o.covered}}.Resources()
	return b.evictor.FitNamespace(ctx, node, keep, o.namespace, late)
}

// showUsedUp says which of the namespaces of a loan are closed at its virtual node, empty if none is.
func (b *Borrowing) showUsedUp(l bound, namespaces []string) string {
	s, names := b.state(l.Provider), []string(nil)
	for _, name := range namespaces {
		if c := s.apart[l.Slice()][name]; c != nil && !c.open {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	if s.notApart != nil {
		return fmt.Sprintf("%s uses more than its requests reserve at %s, and this cannot be taken back: %s",
			strings.Join(names, ", "), l.Provider, s.notApart)
	}
	return fmt.Sprintf("%s uses all that its requests reserve at %s: no more of its pods start there until some end, "+
		"or more is reserved", strings.Join(names, ", "), l.Provider)
}

// Follow looks at the providers whose virtual nodes several namespaces use apart, when pods come or go.
type Follow struct {
	*Borrowing
	// LookAgain asks for a call of Serve after a time, or earlier if another call says so.
	LookAgain func(provider string, after time.Duration)
}

// Run follows the pods until ctx ends.
func (f Follow) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.options.Inventory.PodsMoved():
		}
		f.providers.Range(func(provider, known any) bool {
			if known.(*state).shared.Load() {
				f.LookAgain(provider.(string), podsSettle)
			}
			return true
		})
	}
}
