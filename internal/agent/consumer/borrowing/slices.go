package borrowing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
)

// ensure makes the slice of one account, and returns what it waits for. all are the loans of all providers,
// namespaces those whose pods may run on all virtual nodes with this one.
func (b *Borrowing) ensure(ctx context.Context, provider, slice string, loans, all []bound,
	namespaces []string) (waits string, err error) {
	if message, err := b.checkCaptures(ctx, provider, slice, loans, all, namespaces); err != nil {
		return "", err
	} else if message != "" {
		shown := condition(api.ConditionOffloaded, false, "WouldOffloadOthers", message)
		return message, b.showCondition(ctx, loans, offloadPart, shown)
	}
	if waits, err := b.awaitNetwork(ctx, provider, slice, loans); err != nil || waits != "" {
		return waits, err
	}
	reached, err := network.Reached(ctx, b.options.Client, provider, true)
	if err != nil {
		return "", err
	}
	node := offload.Node{Reflect: b.reflectionFor(provider, all), Namespaces: namespaces, Hub: loans[0].Relend,
		ProviderPool: loans[0].Pool, NoIP: len(reached) == 0}
	if i := firstOfPool(loans); i >= 0 {
		pool := loans[i].pool
		node.Pool, node.Burst = pool.Name, len(pool.Spec.Namespaces) > 0 && pool.offload.Strategy != api.OffloadRemote
	}
	granted, err := b.options.Slices.Ensure(ctx, provider, slice, wishOf(loans).Resources(), node)
	if err != nil {
		return "", err
	}
	waits = slice + ": " + granted.Message
	has := served(loans, granted)
	first := b.begins(provider, loans, has)
	shown := first
	if granted.Ready {
		b.waits.Forget(slice)
	}
	if granted.Ready || !b.waits.Passes(slice, granted.Message) {
		shown = loans // else all of an account that grows would be written at each step
	}
	shown = slices.Concat(first, b.others(provider, shown, first))
	more, err := b.showSlice(ctx, provider, slice, loans, shown, granted, has)
	if err != nil {
		return waits, err
	}
	for _, l := range first {
		if l.connected() && !b.state(provider).network.Ready {
			continue
		}
		if err := b.activate(ctx, l); err != nil {
			return "", err
		}
	}
	if !granted.Ready {
		_, err := b.awaitNamespaces(ctx, first)
		return waits, err
	}
	waits, err = b.awaitNamespaces(ctx, loans)
	if more || len(first) == atOnce {
		waits = cmp.Or(waits, slice+": its reservations are shown, some at a time")
	}
	return waits, err
}

// checkCaptures names the namespaces that a new virtual node would take in although neither they nor a request that
// may name them want to be at its provider: their Secrets would go there. It is empty if there are none, if the
// virtual node exists, or if all are mapped there already.
func (b *Borrowing) checkCaptures(ctx context.Context, provider, slice string, loans, all []bound,
	namespaces []string) (string, error) {
	if slices.Contains(b.state(provider).reflection.Nodes, slice) {
		return "", nil
	}
	named, err := b.namespaces.Mapped(ctx, provider)
	if err != nil {
		return "", err
	}
	for _, l := range all {
		if o := l.offload(); o != nil && l.Provider == provider {
			named = append(named, slices.DeleteFunc(slices.Clone(o.Namespaces),
				func(name string) bool { return b.checkAllowed(ctx, name, l) != nil })...)
		}
	}
	labels := map[string]string{grant.ProviderLabel: provider, grant.PoolLabel: loans[0].Pool}
	for _, name := range namespaces {
		labels[offload.Label(name)] = "true"
	}
	others, err := b.namespaces.Others(ctx, provider, labels, named)
	if err != nil || len(others) == 0 {
		return "", err
	}
	return fmt.Sprintf("WouldOffloadOthers: the NamespaceOffloadings of %s would select the new virtual node: "+
		"their owners narrow their clusterSelector, or consent: kubectl label namespace %s %s=true",
		strings.Join(others, ", "), others[0], api.OffloadToAnyLabel), nil
}

// activate reports that a reservation's virtual node is Ready. A broker that does not answer learns it at the
// next look.
func (b *Borrowing) activate(ctx context.Context, l bound) error {
	if l.State != api.Reserved {
		return nil
	}
	b.state(l.Provider).reported[l.ID] = b.clock.Now()
	_, err := b.options.Relay.Progress(ctx, l.ID, api.Active)
	switch api.CodeOf(err) {
	case api.CodeConflict, api.CodeNotFound, api.CodeUnavailable:
		return nil
	}
	return err
}
