package agent

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/liqo/guard"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

// lend is what a provider's agent does with Liqo: peerings in which others borrow, and what they are granted.
type lend struct {
	client.Client
	cluster   string
	namespace string // the agent's
	market    *exchange.Exchange
	inventory *inventory.Inventory
	peering   *peering.Provider
	network   *network.Network
	policies  *posture.Policies
	sharing   func() *api.Sharing
	suspends  func(ctx context.Context, consumer string) (metav1.Condition, error) // the admin's word
	reader    client.Reader                                                        // from the API server
	graces    graces
	log       *slog.Logger
	proofs    map[string]proof // that the policies deny, for each consumer
	isOpen    map[string]bool  // the peerings that are
	listed    map[string]told
	late      *overstaying
	tried     map[string]tried // accounts of which nothing more can be taken back, by their user
	began     time.Time        // when this agent began to lead
}

// graces are how long pods may stay that a reservation no longer covers.
type graces struct {
	// shrink is how long the consumer has to move pods off before they are overstaying.
	shrink time.Duration
	// excess is how long pods may then stay beyond the grant, until they are deleted.
	excess time.Duration
}

const (
	// proofLasts is how long the proof that the policies deny holds for a peering that is open already.
	proofLasts = time.Minute
	// openingLasts is how long it holds for one that opens: each asks anew, but not at each of its steps.
	openingLasts = 2 * time.Second
)

func (l *lend) open(ctx context.Context, peer string, heard *api.Handshake) (peering.Progress, error) {
	lasts := openingLasts
	if l.isOpen[peer] {
		lasts = proofLasts
	}
	if time.Since(l.proofs[peer].begun) > lasts {
		l.proofs[peer] = l.prove(ctx, peer)
	}
	if l.isOpen[peer] || heard != nil { // before, there is only a nonce, which grants nothing
		if err := l.proofs[peer].holds(); err != nil {
			delete(l.proofs, peer)
			return peering.Progress{}, err
		}
	}
	progress, err := l.peer(ctx, peer, heard)
	l.isOpen[peer] = err == nil && progress.Open
	return progress, err
}

// proof is that the policies keep a consumer to what it reserved. It is looked for while the consumer signs its nonce.
type proof struct {
	begun time.Time
	holds func() error // waits for it
}

func (l *lend) prove(ctx context.Context, peer string) proof {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	holds := sync.OnceValue(func() error {
		defer cancel()
		if err := l.policies.InForce(ctx); err != nil {
			return err
		}
		bindings, err := posture.ReadBindings(ctx, l.policies.Reader)
		if found := bindings.Colliding(peer); err == nil && len(found) > 0 {
			return api.Errorf(api.CodeConflict, "%s: %s", found[0].Code, found[0].Detail).Fix("%s", found[0].Remedy)
		}
		return err
	})
	go holds()
	return proof{time.Now(), holds}
}

// peer opens a peering under policies that are in force, and have been told of the consumer. As long as there is only a nonce, which grants
// nothing, they are told meanwhile.
func (l *lend) peer(ctx context.Context, peer string, heard *api.Handshake) (peering.Progress, error) {
	byHand, err := l.peering.ByHand(ctx, peer)
	if err != nil {
		return peering.Progress{}, err
	}
	var listed errgroup.Group
	if !byHand { // one made by hand goes on as it is
		listed.Go(func() error { return l.list(ctx, peer) })
	}
	if heard != nil || l.isOpen[peer] {
		if err := listed.Wait(); err != nil {
			return peering.Progress{}, err
		}
	}
	progress, err := l.peering.Open(ctx, peer, heard)
	return progress, cmp.Or(listed.Wait(), err)
}

// told is what the policies were told of a consumer, and when.
type told struct {
	at      time.Time
	demands *posture.Demands
	slices  []posture.Slice
}

// list puts a consumer under the policies before there is anything that it could do. What they were told a moment ago is not told again.
func (l *lend) list(ctx context.Context, peer string) (err error) {
	now := told{at: time.Now()}
	if s := l.sharing(); s != nil {
		now.demands = &posture.Demands{}
		if n := s.Namespaces; n != nil {
			now.demands = &posture.Demands{Limits: n.RequireLimits, Annotations: n.Annotations}
		}
	}
	if now.slices, err = l.slices(ctx, peer); err != nil {
		return err
	}
	before := l.listed[peer]
	if now.at.Sub(before.at) < openingLasts && reflect.DeepEqual(now.demands, before.demands) && reflect.DeepEqual(now.slices, before.slices) {
		return nil
	}
	delete(l.listed, peer)
	if err := l.policies.List(ctx, peer, now.demands, now.slices); err != nil {
		return err
	}
	l.listed[peer] = now
	return nil
}

// restrict does what the policy says about a consumer of this standing, and the admin about this one, or takes it back.
func (l *lend) restrict(ctx context.Context, peer string, state api.MemberState) error {
	action, known := onRevoke(l.sharing(), state)
	if !known {
		action = peering.AsItIs
	}
	suspended, err := l.suspends(ctx, peer)
	if err != nil {
		return err
	}
	return l.peering.Restrict(ctx, peer, action, suspended.Status == metav1.ConditionTrue)
}

func (l *lend) suspension(ctx context.Context, peer string) (*metav1.Condition, error) {
	s, err := l.suspends(ctx, peer)
	return &s, err
}

// effect is what comes of it, in words.
func (l *lend) effect(state api.MemberState) string {
	action, known := onRevoke(l.sharing(), state)
	if !known {
		return "with no SharingPolicy in force its Tenant is left as it is"
	}
	return effectOf(action)
}

// pools are those of which a consumer may have something: what the policy shares, and what was reserved before it changed.
func (l *lend) pools(ctx context.Context, consumer string) ([]string, error) {
	var pools []string
	if s := l.sharing(); s != nil {
		for _, p := range s.Pools {
			pools = append(pools, p.Name)
		}
	}
	err := l.market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(l.cluster, 0) {
			if r.Provider == l.cluster && r.Consumer == consumer && r.State.Counts() {
				pools = append(pools, r.Pool)
			}
		}
	})
	slices.Sort(pools)
	return slices.Compact(pools), err
}

// slices are those that a consumer may have here, one for each pool.
func (l *lend) slices(ctx context.Context, consumer string) ([]posture.Slice, error) {
	pools, err := l.pools(ctx, consumer)
	var all []posture.Slice
	for _, pool := range pools {
		if err != nil {
			return nil, err
		}
		s := posture.Slice{Name: market.SliceName(consumer, l.cluster, pool)}
		s.User = grant.User(s.Name, consumer)
		if p := l.sharing().Pool(pool); p != nil {
			s.Places = &posture.Places{Nodes: p.NodeSelector, Tolerates: p.TolerateTaints, StorageClasses: p.StorageClasses, RuntimeClasses: p.RuntimeClasses}
		}
		s.CSR, err = peering.SliceCSR(consumer, s.Name)
		all = append(all, s)
	}
	return all, err
}

// serve shows what is used, and takes back what was given up: slices are granted as they come.
func (l *lend) serve(ctx context.Context, peer string) (string, error) {
	if err := l.showUse(ctx, peer); err != nil {
		return "", err
	}
	pools, err := l.pools(ctx, peer)
	if err != nil {
		return "", err
	}
	all, err := l.accounts(ctx, peer)
	if err != nil {
		return "", err
	}
	for _, pool := range pools {
		slice := market.SliceName(peer, l.cluster, pool)
		a := all[grant.User(slice, peer)]
		rest, err := covers(a.owed(), nil)
		if err != nil {
			return "", err
		}
		for _, part := range a.givenUp() {
			if rest.Fits(l.used(peer, slice).Only(part.Size)) {
				continue
			}
			if l.overdue(part) {
				err = l.takeBack(ctx, part, rest)
			}
			return "pods use what " + peer + " has given up", err
		}
	}
	return "", nil
}

// overdue says whether pods may no longer use what ends.
func (l *lend) overdue(r *market.Reservation) bool {
	return l.market.Now().Go().Sub(r.Changed.Go()) >= l.graces.shrink+l.graces.excess
}

// remains names the namespaces that Liqo mapped for a consumer and that have not gone yet, and what is left in them, in Kubernetes' words.
// A consumer may have many namespaces, and a condition holds at most 32 KiB: the text is cut after 1 KiB.
func (l *lend) remains(ctx context.Context, consumer string) (string, error) {
	var list corev1.NamespaceList
	if err := l.List(ctx, &list, liqo.Of(consumer)); err != nil {
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

func (l *lend) close(ctx context.Context, peer string, force bool) (bool, error) {
	done, err := l.peering.Close(ctx, peer, force)
	if err != nil || !done {
		return false, err
	}
	delete(l.isOpen, peer)
	delete(l.proofs, peer)
	delete(l.listed, peer)
	return true, l.policies.Unlist(ctx, peer)
}

// account is what the Ledger says of one: what is bound, and what is ending.
type account struct {
	bound, ending []*market.Reservation
}

func (a account) owed() market.Amounts {
	var sum market.Amounts
	for _, r := range a.bound {
		sum = sum.Plus(r.Size)
	}
	return sum
}

// covers is what pods may use by what is owed and by what ends: with the slots for pods that are granted where no reservation names any.
func covers(owed, ending market.Amounts) (market.Amounts, error) {
	both := owed.Plus(ending)
	if len(both) == 0 {
		return nil, nil
	}
	most, err := market.Have("granted", grant.Grant(both.Resources()))
	if err != nil || len(owed) == 0 || len(ending) == 0 {
		return most, err
	}
	granted, err := market.Have("granted", grant.Grant(owed.Resources())) // what ends may name fewer pods than are granted now
	return most.Max(granted), err
}

// givenUp are the parts of what is bound that have become smaller.
func (a account) givenUp() (parts []*market.Reservation) {
	for _, r := range a.bound {
		if part := r.Ending(); part != nil {
			parts = append(parts, part)
		}
	}
	return parts
}

// accounts reads the accounts that have something here, by the users of their slices: those of one consumer, or of all.
func (l *lend) accounts(ctx context.Context, consumer string) (map[string]account, error) {
	all := map[string]account{}
	err := l.market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(l.cluster, 0) {
			if r.Provider != l.cluster || consumer != "" && r.Consumer != consumer || !r.Bound() && r.State != api.Releasing {
				continue
			}
			user := grant.User(r.Slice(), r.Consumer)
			a := all[user]
			if r.Bound() {
				a.bound = append(a.bound, r)
			} else {
				a.ending = append(a.ending, r)
			}
			all[user] = a
		}
	})
	return all, err
}

// account reads the account whose slice has this name.
func (l *lend) account(ctx context.Context, consumer, slice string) (account, error) {
	all, err := l.accounts(ctx, consumer)
	return all[grant.User(slice, consumer)], err
}

// used is what the pods of an account request.
func (l *lend) used(consumer, slice string) market.Amounts {
	used, err := market.Have("used", l.inventory.Used(grant.User(slice, consumer)))
	if err != nil {
		return nil
	}
	return used
}

// owed is what an account is to be granted: the sum of what is bound. What ended goes from it at once, though its pods may stay for
// the graces: as long as it was granted, the pods that are moved off would be scheduled there again.
func (l *lend) owed(ctx context.Context, consumer, slice string) (grant.Owed, bool, error) {
	a, err := l.account(ctx, consumer, slice)
	if err != nil || len(a.bound)+len(a.ending) == 0 {
		return grant.Owed{}, false, err
	}
	out := grant.Owed{Pool: slices.Concat(a.bound, a.ending)[0].Pool, Resources: a.owed().Resources()}
	for _, r := range a.bound {
		out.Reservations = append(out.Reservations, r.ID)
	}
	slices.Sort(out.Reservations)
	return out, true, nil
}

// takeBack deletes what pods still take beyond what is left of an account.
func (l *lend) takeBack(ctx context.Context, ours *market.Reservation, rest market.Amounts) error {
	keep := api.Resources{}
	for name := range ours.Size.Resources() {
		keep[name] = resource.Quantity{} // what nobody has reserved any more
	}
	maps.Copy(keep, rest.Resources())
	excess := grant.Excess{User: grant.User(ours.Slice(), ours.Consumer), Keep: keep, Patience: l.graces.excess}
	n, err := excess.TakeBack(ctx, l.reader, l.Client, l.market.Now().Go())
	if takenBack.WithLabelValues("overstay").Add(float64(n)); n > 0 {
		l.log.Warn("pods stayed longer than what they were lent: deleted", "consumer", ours.Consumer, "reservation", ours.ID, "pods", n)
	}
	return err
}

// storage is how many bytes of volumes a consumer has reserved, in all pools together: as long as it counts, what ends too.
func (l *lend) storage(ctx context.Context, consumer string) (total int64, err error) {
	err = l.market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(l.cluster, 0) {
			if r.Provider == l.cluster && r.Consumer == consumer && (r.Bound() || r.State == api.Releasing) {
				total += r.Size.Of(string(corev1.ResourceStorage))
			}
		}
	})
	return total, err
}

// granted is what a consumer is granted in all pools together.
func (l *lend) granted(ctx context.Context, consumer string) (api.Resources, error) {
	all, err := l.accounts(ctx, consumer)
	if err != nil {
		return nil, err
	}
	sum := api.Resources{corev1.ResourceCPU: resource.Quantity{}, corev1.ResourceMemory: resource.Quantity{}, corev1.ResourcePods: resource.Quantity{}}
	for _, a := range all {
		for name, amount := range grant.Grant(a.owed().Resources()) {
			total := sum[name]
			total.Add(amount)
			sum[name] = total
		}
	}
	return sum, nil
}

// freed says whether nothing is left of a reservation that ends: neither is it granted, nor do pods use it.
func (l *lend) freed(ctx context.Context, ours *market.Reservation) (bool, error) {
	slice := ours.Slice()
	a, err := l.account(ctx, ours.Consumer, slice)
	if err != nil {
		return false, err
	}
	rest, err := covers(a.owed(), nil)
	if err != nil {
		return false, err
	}
	used, stays := l.used(ours.Consumer, slice).Only(ours.Size), market.Amounts(nil)
	if !rest.Fits(used) {
		stays = used
	}
	if err := l.overstays(ctx, ours, stays); err != nil {
		return false, err
	}
	if stays != nil {
		if !l.overdue(ours) {
			return false, nil
		}
		return false, l.takeBack(ctx, ours, rest)
	}
	told, err := grant.Told(ctx, l.Client, ours.Consumer, slice)
	if err != nil {
		return false, err
	}
	granted, err := market.Have("granted", told)
	if err != nil {
		return false, err
	}
	return rest.Fits(granted.Only(ours.Size)), nil
}
