package borrowing

import (
	"context"
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// CheckNamespaces implements requests.Offloading. It counts the namespaces that are mapped at the provider, and
// those of all reservations with it, and compares what is copied there. Errors: InUse, NamespacesFull.
func (b *Borrowing) CheckNamespaces(ctx context.Context, request *api.ResourceRequest, provider *api.Card) error {
	asks := bound{request: request}
	if request.Namespace == b.options.Namespace {
		pools, err := b.pools(ctx)
		if err != nil {
			return err
		}
		asks.pool = pools[request.Labels[api.VirtualNodePoolLabel]]
	}
	o := asks.offload()
	if o == nil {
		return nil
	}
	mapped, err := b.namespaces.Mapped(ctx, provider.Cluster)
	if err != nil {
		return err
	}
	if err := b.checkReflection(ctx, provider.Cluster, asks, mapped); err != nil {
		return err
	}
	all, err := b.loans(ctx)
	if err != nil {
		return err
	}
	for _, l := range all {
		if o := l.offload(); o != nil && l.Provider == provider.Cluster {
			mapped = append(mapped, o.Namespaces...)
		}
	}
	_, err = split(provider.Cluster, provider.MaxNamespaces, mapped, o.Namespaces)
	return err
}

// holdBack returns those of the namespaces that can be mapped at a provider, and remembers the others. One
// namespace too many, and the provider would refuse the whole map of namespaces.
func (b *Borrowing) holdBack(ctx context.Context, provider string, wanted []string) ([]string, error) {
	var card int32
	if m, err := b.options.Market.Member(ctx, provider); err != nil {
		return nil, err
	} else if m != nil {
		card = m.MaxNamespaces
	}
	mapped, err := b.namespaces.Mapped(ctx, provider)
	if err != nil {
		return nil, err
	}
	s := b.state(provider)
	s.heldBack, s.full = split(provider, card, mapped, wanted)
	return slices.DeleteFunc(wanted, func(name string) bool { return slices.Contains(s.heldBack, name) }), nil
}

// split returns the namespaces that cannot be mapped at a provider beside those that are, and why. The provider's
// card says how many there can be; 0: it does not say.
func split(provider string, most int32, mapped, wanted []string) (heldBack []string, full error) {
	slices.Sort(mapped)
	mapped = slices.Compact(mapped)
	fresh := slices.DeleteFunc(slices.Clone(wanted), func(name string) bool { return slices.Contains(mapped, name) })
	room := max(int(most)-len(mapped), 0)
	if most == 0 || len(fresh) <= room {
		return nil, nil
	}
	heldBack = fresh[room:]
	return heldBack, api.Errorf(api.CodeNamespacesFull,
		"%s maps at most %d namespaces of a consumer, and %d are mapped already: %s cannot be mapped",
		provider, most, len(mapped), firstFew(heldBack)).At("offload.namespaces").
		Fix("offload fewer namespaces, or ask the admin of %s to raise namespaces.max of the SharingPolicy", provider)
}

// showFull shows for a loan that its namespaces are not mapped, because the provider has too many already. A hub
// shows it for each loan that it lends on. It returns what it waits for, empty if they can be mapped.
func (b *Borrowing) showFull(ctx context.Context, l bound, namespaces []string) (waits string, err error) {
	s := b.state(l.Provider)
	if s.full == nil || !l.Relend && !slices.ContainsFunc(namespaces,
		func(name string) bool { return slices.Contains(s.heldBack, name) }) {
		return "", nil
	}
	shown := condition(api.ConditionOffloaded, false, string(api.CodeNamespacesFull), s.full.Error())
	return api.WithoutCode(s.full.Error()), b.showCondition(ctx, []bound{l}, offloadPart, shown)
}
