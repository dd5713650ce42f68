package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/debounce"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
)

// borrow is what a consumer's agent does with Liqo: peerings in which it borrows, a slice for each account, and the
// namespaces that use them.
type borrow struct {
	client.Client
	cluster    string
	market     *exchange.Exchange
	broker     transport.Broker
	peering    *peering.Consumer
	network    *network.Network
	networks   map[string]network.Standing // those that loans ask for, by provider
	slices     *offload.Slices
	namespaces *offload.Namespaces
	evictor    *offload.Evictor
	inventory  *inventory.Inventory
	looked     map[string]time.Time        // when the pods of a loan were last looked at
	waits      *debounce.Debouncer[string] // what each slice waits for
	graces     graces
	suspended  map[string]metav1.Condition // that the provider shows, by provider
}

func (b *borrow) open(ctx context.Context, peer string, heard *api.Handshake) (peering.Progress, error) {
	return b.peering.Open(ctx, peer, heard)
}

func (b *borrow) close(ctx context.Context, peer string, force bool) (bool, error) {
	if force {
		slices, err := b.slices.Names(ctx, peer)
		if err != nil {
			return false, err
		}
		for _, slice := range slices {
			if err := b.evictor.Clear(ctx, slice); err != nil {
				return false, err
			}
		}
	}
	if _, err := b.slices.LetGo(ctx, peer, true); err != nil {
		return false, err
	}
	return b.peering.Close(ctx, peer, force)
}

// serve makes the slices with a provider what its reservations say, and offloads what they name.
func (b *borrow) serve(ctx context.Context, provider string) (string, error) {
	all, err := b.bound(ctx)
	if err != nil {
		return "", err
	}
	if err := b.offload(ctx, all); err != nil {
		return "", err
	}
	accounts := map[string][]loan{}
	for _, l := range all {
		if l.Provider == provider {
			accounts[l.Slice()] = append(accounts[l.Slice()], l)
		}
	}
	if len(accounts) == 0 {
		b.suspended[provider] = metav1.Condition{Type: api.ConditionSuspended, Status: metav1.ConditionFalse}
	}
	var waits []string
	for slice, loans := range accounts {
		message, err := b.ensure(ctx, provider, slice, loans, all)
		if err != nil {
			return "", err
		}
		waits = append(waits, message)
	}
	shrinks, err := b.shrink(ctx, accounts)
	if err != nil {
		return "", err
	}
	waits = append(waits, shrinks...)
	have, err := b.slices.Names(ctx, provider)
	if err != nil {
		return "", err
	}
	for _, slice := range have {
		if accounts[slice] != nil {
			continue
		}
		if gone, err := b.slices.Remove(ctx, provider, slice); err != nil {
			return "", err
		} else if !gone {
			waits = append(waits, "virtual node "+slice+" is being removed")
		}
	}
	if len(accounts) == 0 && len(have) == 0 {
		message, err := b.slices.LetGo(ctx, provider, false)
		if err != nil {
			return "", err
		}
		waits = append(waits, message)
	}
	waits = slices.DeleteFunc(waits, func(s string) bool { return s == "" })
	slices.Sort(waits)
	return strings.Join(waits, "; "), nil
}

// loan is a reservation that both sides are bound by, with the request that made it; nil if that is gone.
type loan struct {
	*market.Reservation
	request *api.ResourceRequest
}

func (l loan) offload() *api.Offload {
	if l.request == nil {
		return nil
	}
	return l.request.Spec.Offload
}

// bound reads all loans of this cluster, oldest first.
func (b *borrow) bound(ctx context.Context) ([]loan, error) {
	var all []loan
	err := b.market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(b.cluster, 0) {
			if r.Consumer == b.cluster && r.Bound() {
				all = append(all, loan{Reservation: r})
			}
		}
	})
	for i, l := range all {
		if err != nil || l.Object == nil {
			continue
		}
		var request api.ResourceRequest
		if get := b.Get(ctx, client.ObjectKey{Namespace: l.Object.Namespace, Name: l.Object.Name}, &request); client.IgnoreNotFound(get) != nil {
			err = get
		} else if get == nil && string(request.UID) == l.Object.UID {
			all[i].request = &request
		}
	}
	return all, err
}

// ensure makes one slice, and says what it waits for.
func (b *borrow) ensure(ctx context.Context, provider, slice string, loans, all []loan) (string, error) {
	if message, err := b.captures(ctx, provider, loans, all); err != nil || message != "" {
		b.show(ctx, loans, shown{api.ConditionOffloaded, false, "WouldOffloadOthers", message})
		return message, err
	}
	if wait, err := b.awaitNetwork(ctx, provider, slice, loans); err != nil || wait != "" {
		return wait, err
	}
	var reflect []api.Reflect
	for _, l := range loans {
		if o := l.offload(); o != nil && o.Reflect != nil {
			reflect = append(reflect, *o.Reflect)
		} else {
			reflect = append(reflect, api.Reflect{})
		}
	}
	standing, err := b.slices.Ensure(ctx, provider, slice, sizeOf(loans).Resources(), offload.Strictest(reflect))
	if err != nil {
		return "", err
	}
	if standing.Ready {
		b.waits.Forget(slice)
	} else if b.waits.Passes(slice, standing.Message) {
		return slice + ": " + standing.Message, nil
	}
	b.show(ctx, loans, shown{api.ConditionPeered, true, "Peered", ""},
		shown{api.ConditionGranted, standing.Granted, reasonOf(standing.Granted, "Granted", "Waiting"), standing.Message},
		shown{api.ConditionNodeReady, standing.Ready, reasonOf(standing.Ready, "Ready", "Waiting"), standing.Message})
	if err := b.showUse(ctx, slice, loans, standing.Resources); err != nil {
		return "", err
	}
	b.showSuspension(ctx, provider, loans, standing)
	if !standing.Ready {
		return slice + ": " + standing.Message, nil
	}
	for _, l := range loans {
		if l.connected() && !b.networks[provider].Ready {
			continue
		}
		if err := b.activate(ctx, l); err != nil {
			return "", err
		}
	}
	return b.offloaded(ctx, loans)
}

func reasonOf(ok bool, yes, no string) string {
	if ok {
		return yes
	}
	return no
}

// captures says which namespaces a new virtual node would take in that nobody named: their Secrets would go to the
// provider. Empty if none, or if the request says that this is meant.
func (b *borrow) captures(ctx context.Context, provider string, loans, all []loan) (string, error) {
	var named []string
	for _, l := range all {
		if o := l.offload(); o != nil {
			named = append(named, o.Namespaces...)
		}
	}
	for _, l := range loans {
		if o := l.offload(); o != nil && o.Others {
			return "", nil
		}
	}
	others, err := b.namespaces.Others(ctx, provider, map[string]string{grant.ProviderLabel: provider, grant.PoolLabel: loans[0].Pool}, named)
	if err != nil || len(others) == 0 {
		return "", err
	}
	return fmt.Sprintf("WouldOffloadOthers: the NamespaceOffloadings of %s would select the new virtual node: narrow their clusterSelector, or say offload.others: true",
		strings.Join(others, ", ")), nil
}

// activate reports that a reservation's virtual node is Ready.
func (b *borrow) activate(ctx context.Context, l loan) error {
	if l.State != api.Reserved {
		return nil
	}
	_, err := b.broker.Progress(ctx, l.ID, api.Active)
	if code := api.CodeOf(err); err == nil || code == api.CodeConflict || code == api.CodeNotFound || code == api.CodeUnavailable {
		return nil // a broker that is away hears of it later: the next look says it again
	}
	return err
}

// offload lets each namespace that a request may name use what its providers lend, and no other one of ours.
func (b *borrow) offload(ctx context.Context, all []loan) error {
	uses := map[string]*offload.Use{}
	ours, err := b.namespaces.Ours(ctx)
	if err != nil {
		return err
	}
	for _, name := range ours {
		uses[name] = &offload.Use{Namespace: name}
	}
	for _, l := range all {
		o := l.offload()
		if o == nil {
			continue
		}
		for _, name := range o.Namespaces {
			if err := b.allowed(ctx, l, name); err != nil {
				b.show(ctx, []loan{l}, shown{api.ConditionOffloaded, false, string(api.CodeOf(err)), err.Error()})
				continue
			}
			if uses[name] == nil {
				uses[name] = &offload.Use{Namespace: name}
			}
			u := uses[name]
			u.Strategy = o.Strategy
			if !slices.Contains(u.Providers, l.Provider) {
				u.Providers = append(u.Providers, l.Provider)
			}
		}
	}
	for _, u := range uses {
		slices.Sort(u.Providers)
		if err := b.namespaces.Ensure(ctx, *u); err != nil { // one namespace that cannot be holds up no other: the next look tries again
			reason := "Failed"
			switch code := api.CodeOf(err); code {
			case api.CodeConflict:
				reason = "NamespaceOffloadingForeign"
			case api.CodeInvalid:
				reason = string(code)
			}
			b.show(ctx, naming(all, u.Namespace), shown{api.ConditionOffloaded, false, reason, err.Error()})
		}
	}
	return nil
}

func naming(all []loan, namespace string) []loan {
	return slices.DeleteFunc(slices.Clone(all), func(l loan) bool {
		return l.offload() == nil || !slices.Contains(l.offload().Namespaces, namespace)
	})
}

// allowed says whether a request may offload a namespace: its own, or one that its admin opened for it.
func (b *borrow) allowed(ctx context.Context, l loan, namespace string) error {
	if namespace == l.request.Namespace {
		return nil
	}
	var ns corev1.Namespace
	if err := b.Get(ctx, client.ObjectKey{Name: namespace}, &ns); err != nil {
		return err
	}
	if ns.Labels[api.RequestsFromLabel] != l.request.Namespace {
		return api.Errorf(api.CodeForbidden, "namespace %s may not be offloaded by requests of %s", namespace, l.request.Namespace).
			Fix("label it: kubectl label namespace %s %s=%s", namespace, api.RequestsFromLabel, l.request.Namespace)
	}
	return nil
}

// offloaded shows whether what the requests name is mapped, and says what it waits for.
func (b *borrow) offloaded(ctx context.Context, loans []loan) (string, error) {
	for _, l := range loans {
		o := l.offload()
		if o == nil {
			continue
		}
		for _, name := range o.Namespaces {
			ready, message, err := b.namespaces.Ready(ctx, name, l.Provider)
			if err != nil {
				return "", err
			}
			if !ready {
				return message, nil
			}
		}
		b.show(ctx, []loan{l}, shown{api.ConditionOffloaded, true, "Offloaded", "offloaded: " + strings.Join(o.Namespaces, ", ")})
		if err := b.comply(ctx, l, o.Namespaces); err != nil {
			return "", err
		}
	}
	return "", nil
}

// comply names the pods that wait because no provider would take them. It looks now and then: nobody waits for it.
func (b *borrow) comply(ctx context.Context, l loan, namespaces []string) error {
	if time.Since(b.looked[l.ID]) < later {
		return nil
	}
	b.looked[l.ID] = time.Now()
	var wrong []string
	for _, name := range namespaces {
		more, err := offload.Complaints(ctx, b.evictor.Reader, name)
		if err != nil {
			return err
		}
		wrong = append(wrong, more...)
	}
	if len(wrong) == 0 {
		b.show(ctx, []loan{l}, shown{api.ConditionPodsComply, true, "PodsComply", ""})
		return nil
	}
	if more := len(wrong) - 5; more > 0 {
		wrong = append(wrong[:5], fmt.Sprintf("and %d more", more))
	}
	b.show(ctx, []loan{l}, shown{api.ConditionPodsComply, false, "WouldBeRefused", "no provider takes: " + strings.Join(wrong, "; ")})
	return nil
}

// shown is a condition of an instruction.
type shown struct {
	kind            string
	ok              bool
	reason, message string
}

// show puts conditions on the instructions of loans. It is a picture: where it cannot be drawn, the next look does.
func (b *borrow) show(ctx context.Context, loans []loan, all ...shown) {
	for _, l := range loans {
		if l.Object == nil {
			continue
		}
		var i api.ReservationInstruction
		if b.Get(ctx, client.ObjectKey{Namespace: l.Object.Namespace, Name: l.ID}, &i) != nil {
			continue
		}
		before, changed := i.DeepCopy(), false
		for _, s := range all {
			c := metav1.Condition{Type: s.kind, Status: metav1.ConditionFalse, Reason: s.reason, Message: s.message, ObservedGeneration: i.Generation}
			if s.ok {
				c.Status = metav1.ConditionTrue
			}
			changed = meta.SetStatusCondition(&i.Status.Conditions, c) || changed
		}
		if changed {
			_ = b.Status().Patch(ctx, &i, client.MergeFrom(before))
		}
	}
}
