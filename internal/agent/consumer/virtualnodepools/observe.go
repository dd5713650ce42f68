package virtualnodepools

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// children are the requests of a pool, with what was observed.
type children struct {
	seen       vnp.Observation
	requests   map[string]*child     // by provider
	beside     map[string]*child     // by provider, another request there: one of the two succeeds the other
	ending     []*market.Reservation // bound ones that serve the pool no more, and that the Ledger still has
	namespaces []string              // of the pool, that it serves
	taken      []string              // namespaces that an older pool has
	long       []string              // namespaces whose names are too long for any provider
	missing    []string              // namespaces that do not exist
	faults     map[string][]fault    // of the providers, by condition
	words      map[string]string     // by provider, the digest of its volumes
	uptime     map[string]*int64     // by provider, in parts per million
	claims     []offload.Claim       // that are bound
}

// child is a request of a pool.
type child struct {
	*api.ResourceRequest
	record *market.Reservation // nil: none yet
	node   *corev1.Node        // nil: none yet
	// shares says that requests have something of the virtual node, others how much.
	shares bool
	others amounts.List
	// disabled: this cluster chose other providers at the broker of the reservation.
	disabled bool
}

// observe reads what a plan is made from.
func (c *Controller) observe(ctx context.Context, pool *api.VirtualNodePool, m *memory) (*children, error) {
	out := &children{requests: map[string]*child{}, beside: map[string]*child{}, words: map[string]string{},
		faults: map[string][]fault{}}
	out.seen = vnp.Observation{Now: c.options.Clock.Now(), Reached: c.options.Brokers.Reached(), Refuses: offload.Refused,
		DeadAfter: c.options.DeadAfter, Volumes: map[string]string{}, Nodes: map[string]bool{}}
	namespaces, err := c.namespaces(ctx, pool, out)
	if err != nil {
		return nil, err
	}
	out.namespaces, out.seen.Node = namespaces, offload.PoolNode(c.options.liqo(), pool.Name, namespaces)
	// Before the Ledger: the first read waits for a list of each namespace, and a request may be bound meanwhile.
	if err := c.readPods(ctx, pool, namespaces, out); err != nil {
		return nil, err
	}
	var list api.ResourceRequestList
	if err := c.options.Client.List(ctx, &list, client.InNamespace(c.options.Namespace),
		client.HasLabels{api.VirtualNodePoolLabel}); err != nil {
		return nil, err
	}
	for i := range list.Items {
		request := &list.Items[i]
		switch before := request.Annotations[vnp.SucceedsAnnotation]; {
		case request.Labels[api.VirtualNodePoolLabel] != pool.Name:
			out.seen.Avoid = append(out.seen.Avoid, request.Spec.Target)
		case !metav1.IsControlledBy(request, pool):
		case slices.ContainsFunc(list.Items, func(r api.ResourceRequest) bool { return string(r.UID) == before }):
			out.beside[request.Spec.Target] = &child{ResourceRequest: request}
		default:
			out.requests[request.Spec.Target] = &child{ResourceRequest: request}
		}
	}
	if err := c.readLedger(ctx, pool, m, out); err != nil {
		return nil, err
	}
	for provider, next := range out.beside {
		if next.record != nil && next.record.Bound() && next.DeletionTimestamp == nil {
			out.requests[provider], out.beside[provider] = next, out.requests[provider]
		}
	}
	word := strings.Split(pool.Annotations[api.VolumesMayDie], ",")
	for provider, child := range out.requests {
		if child.DeletionTimestamp != nil || child.isOver() {
			out.noteEnding(child.record)
			continue
		}
		p, err := c.provider(ctx, child, pool, out)
		if err != nil {
			return nil, err
		}
		m.noteMissing(child, &p, out.seen.Now)
		if pool.Spec.Template.Relend && p.State != vnp.Asked {
			if err := c.readCustomers(ctx, &p, namespaces, out); err != nil {
				return nil, err
			}
		}
		p.GivenUp = slices.Contains(word, out.words[provider])
		p.Paused = m.isPaused(provider, out.seen.Now) && m.paused[provider].less
		out.seen.Providers = append(out.seen.Providers, p)
	}
	for _, faults := range out.faults {
		slices.SortFunc(faults, func(a, b fault) int { return strings.Compare(a.provider, b.provider) })
	}
	return out, nil
}

// noteEnding notes a reservation that serves the pool no more, if both sides are still bound. It may be nil.
func (all *children) noteEnding(r *market.Reservation) {
	if r != nil && (r.Bound() || r.State == api.Releasing && r.Acceptance != "") {
		all.ending = append(all.ending, r)
	}
}

// readLedger finds the reservations of the requests, those of requests that are gone, what others have of the virtual
// nodes, and the providers that cannot serve the pool now: those that refused lately, and those of requests if this
// cluster lends on what the pool has, because its customers would use that of the requests.
func (c *Controller) readLedger(
	ctx context.Context, pool *api.VirtualNodePool, m *memory, out *children,
) error {
	var others []*market.Reservation
	inUse, byUID := map[string]bool{}, map[string]*child{}
	for _, requests := range []map[string]*child{out.requests, out.beside} {
		for _, child := range requests {
			byUID[string(child.UID)] = child
		}
	}
	err := c.options.Market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(s.Self, 0) {
			if r.Consumer != s.Self || r.Provider == "" && r.State != api.Pending {
				continue
			}
			var found *child
			if r.Object != nil {
				found = byUID[r.Object.UID]
			}
			switch {
			case found != nil && (found.record == nil || found.record.Created <= r.Created):
				found.record = r
				found.disabled = !s.Member(s.Self).Chose(r.Provider, func(via string) bool { return via == r.Via })
			case found == nil && r.State.Counts():
				others = append(others, r)
			}
		}
	})
	for _, r := range others {
		gone, failed := c.isOfGone(ctx, pool, r)
		if err = cmp.Or(err, failed); gone {
			out.noteEnding(r)
		}
		if gone || pool.Spec.Template.Relend {
			inUse[r.Provider] = true
			continue
		}
		for _, child := range byUID {
			child.noteOther(r)
		}
	}
	for provider, p := range m.paused {
		if m.isPaused(provider, out.seen.Now) {
			inUse[provider] = true
		} else if out.seen.Now.After(p.until.Add(lastPause)) {
			delete(m.paused, provider)
		}
	}
	out.seen.Avoid = slices.AppendSeq(out.seen.Avoid, maps.Keys(inUse))
	slices.Sort(out.seen.Avoid)
	out.seen.Avoid = slices.Compact(out.seen.Avoid)
	return err
}

// noteOther notes a reservation of others, if it has something of the same virtual node.
func (c *child) noteOther(r *market.Reservation) {
	if c.record != nil && r.Bound() && r.Slice() == c.record.Slice() {
		c.shares, c.others = true, c.others.Plus(r.Size)
	}
}

// isOfGone reports whether a request of a pool made a reservation and is gone. The Ledger knows its name only:
// see nameOf.
func (c *Controller) isOfGone(
	ctx context.Context, pool *api.VirtualNodePool, r *market.Reservation,
) (bool, error) {
	o := r.Object
	if o == nil || o.Namespace != c.options.Namespace || !isNameOf(pool, o.Name) {
		return false, nil
	}
	var request api.ResourceRequest
	err := c.options.Client.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, &request)
	if client.IgnoreNotFound(err) != nil {
		return false, err
	}
	return err != nil || string(request.UID) != o.UID, nil
}

// provider returns what the planner needs to know of a request's provider.
func (c *Controller) provider(ctx context.Context, child *child, pool *api.VirtualNodePool,
	out *children) (vnp.Provider, error) {
	asked, err := amounts.ParseRequest("resources", child.Spec.Resources)
	p := vnp.Provider{
		Name: child.Spec.Target, State: vnp.Asked, Reserved: asked, Since: child.CreationTimestamp.Time,
		Created: child.CreationTimestamp.Time,
	}
	r, cause := child.record, meta.FindStatusCondition(child.Status.Conditions, api.ConditionReserved)
	if err != nil || r == nil || !r.Bound() {
		if cause != nil && cause.Reason == string(api.CodeCapReached) {
			p.Capped = cause.Message
		}
		return p, err
	}
	child.readReservation(&p, asked, out, out.seen.Now.Add(api.DurationOf(pool.Spec.Template.Duration)))
	var i api.ReservationInstruction
	err = c.options.Client.Get(ctx, client.ObjectKey{Namespace: child.Namespace, Name: r.ID}, &i)
	if client.IgnoreNotFound(err) != nil {
		return p, err
	}
	out.noteFaults(p.Name, &i)
	var node corev1.Node
	switch err := c.options.Client.Get(ctx, client.ObjectKey{Name: p.Node}, &node); {
	case client.IgnoreNotFound(err) != nil:
		return p, err
	case err != nil && r.State == api.Active:
		p.State = vnp.NotReady
		return p, nil
	case err != nil:
		return p, nil
	}
	child.node, p.Labels = &node, out.labelsOf(&node, &i)
	readReadiness(&p, &node, r.State == api.Active)
	if r.ReclaimAt != 0 && p.State == vnp.Ready && pool.Spec.Replace != api.ReplaceNever {
		p.State = vnp.Leaving
	}
	has, _ := amounts.ParseCapacity("allocatable", node.Status.Allocatable)
	p.Lowered = p.Wish != nil && p.Wish.Fits(has.Minus(child.others).Only(p.Wish))
	p.Claims, out.words[p.Name] = offload.SortClaims(slices.DeleteFunc(slices.Clone(out.claims),
		func(c offload.Claim) bool { return c.Node != p.Node }))
	p.Drifted = child.Annotations[templateAnnotation] != digestOf(pool.Spec.Template)
	return p, nil
}

// readReservation notes what the Ledger says of a bound reservation. asked is the size that its request names, and until
// the time to which the pool would extend it.
func (c *child) readReservation(p *vnp.Provider, asked amounts.List, all *children, until time.Time) {
	r := c.record
	p.Node, p.Created, p.Until = r.Slice(), r.Created.Go(), r.EndsAt().Go()
	p.Cost, _ = r.Hourly()
	refusal := c.refusal(all.seen.Now)
	refused, capped := refusal != nil, refusal != nil && refusal.Reason == api.ReasonCapReached
	if capped {
		p.Capped = api.WithoutCode(refusal.Message)
	}
	p.Ends = refused && !capped && refusal.Until > r.Until || !extends(r, until)
	if p.Changing = !asked.Equal(r.Size) && !refused; !p.Changing {
		p.Reserved = r.Size
	} else {
		p.Reserved = asked.Max(r.Size)
	}
	p.Disabled, p.Changing = c.disabled, p.Changing || all.beside[p.Name] != nil
	if p.Wish = vnp.ReadWish(c.ResourceRequest); p.Wish.Equal(r.Size) {
		p.Wish = nil
	}
}

// readReadiness notes since when a virtual node is Ready. One that never was counts as NotReady only while its
// reservation is active.
func readReadiness(p *vnp.Provider, node *corev1.Node, active bool) {
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status == corev1.ConditionTrue {
			p.State, p.Since = vnp.Ready, condition.LastTransitionTime.Time
		} else if active {
			p.State, p.Since = vnp.NotReady, condition.LastTransitionTime.Time
		}
	}
}

// extends reports whether the contract of a reservation may last until a time. A loan has none.
func extends(r *market.Reservation, until time.Time) bool {
	bought := r.Bought()
	return bought == nil || bought.AtMost(until.Sub(r.Created.Go())) == nil && len(r.Past) < market.MaxStretches
}
