package borrowing

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/internal/liqo/offload"
)

// leave ends what no reservation with a provider uses any more: namespaces, and slices without an
// account. It does so in this order: cordon the virtual nodes, evict within the
// PodDisruptionBudgets, and once no pod and no bound claim is left, take the labels of the
// namespaces off and remove the slices. Liqo deletes a namespace at the provider, with its pods and
// volumes, as soon as its label is off. Pods that are still there when the graces are over are
// deleted, as the provider does, and claims are left behind. nodes are all virtual nodes with the
// provider, have the namespaces that they are labelled with. It returns what it waits for.
func (b *Borrowing) leave(ctx context.Context, provider string, nodes, have, wanted []string,
	accounts map[string][]bound) (waits []string, err error) {
	leaving := slices.DeleteFunc(slices.Clone(have), func(name string) bool { return slices.Contains(wanted, name) })
	names, err := b.options.Slices.Names(ctx, provider)
	if err != nil {
		return nil, err
	}
	occupied := map[string]bool{}
	byHand := slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { return slices.Contains(names, node) })
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { return slices.Contains(byHand, node) })
	over := len(nodes) > 0 // the graces begin when one is cordoned
	for _, node := range nodes {
		left, err := b.leaveNode(ctx, node, have, leaving, accounts[node])
		if err != nil {
			return nil, err
		}
		if left != nil {
			occupied[node], over = left.waits != "", over && left.late
			waits = append(waits, left.waits)
		}
	}
	for _, node := range byHand { // the admin's: pods leave it, and it is not cordoned
		message, err := b.empty(ctx, node, leaving, false, over)
		if err != nil {
			return nil, err
		}
		waits = append(waits, message)
	}
	if len(leaving) > 0 && strings.Join(waits, "") == "" {
		if err := b.namespaces.SetLabels(ctx, provider, nil, leaving, nil); err != nil {
			return nil, err
		}
		waits = append(waits, "no longer offloaded: "+strings.Join(leaving, ", "))
	}
	removed, err := b.removeSlices(ctx, provider, slices.DeleteFunc(slices.Clone(names), func(slice string) bool {
		return accounts[slice] != nil || occupied[slice] || len(accounts) == 0 && len(leaving) > 0
	}))
	if waits = append(waits, removed...); err != nil {
		return nil, err
	}
	if len(accounts) > 0 || len(names) > 0 {
		return waits, nil
	}
	message, err := b.options.Slices.LetGo(ctx, provider, false)
	return append(waits, message), err
}

// emptied is how far the pods have left a virtual node.
type emptied struct {
	waits string // what it waits for; empty: neither pods nor claims are left
	late  bool   // the graces are over
}

// leaveNode empties a virtual node of the namespaces that leave it, or of all that it has if it has no account any
// more. It returns nil for one that nothing leaves.
func (b *Borrowing) leaveNode(
	ctx context.Context, node string, have, namespaces []string, account []bound,
) (*emptied, error) {
	drained := drains(account) // its pool ends it once it is empty
	ends, from := account == nil || drained, namespaces
	if ends {
		from = have
	} else if len(from) == 0 {
		return nil, b.namespaces.Uncordon(ctx, node)
	}
	now := b.options.Market.Now().Go()
	since, err := b.namespaces.Cordon(ctx, node, now)
	if err != nil {
		return nil, err
	}
	left := &emptied{
		waits: "virtual node " + node + " is cordoned",
		late:  now.Sub(since) > b.options.Graces.Shrink+b.options.Graces.Excess && !drained,
	}
	if !since.Equal(now) { // pods that the scheduler has just placed are seen at the next look
		left.waits, err = b.empty(ctx, node, from, ends, left.late)
	}
	return left, err
}

// removeSlices removes slices of a provider that have no account. It returns what it waits for.
func (b *Borrowing) removeSlices(ctx context.Context, provider string, over []string) (waits []string, err error) {
	for _, slice := range over {
		gone, err := b.options.Slices.Remove(ctx, provider, slice)
		if err != nil {
			return nil, err
		}
		if !gone {
			waits = append(waits, "virtual node "+slice+" is being removed")
		}
		b.waits.Forget(slice)
	}
	return waits, nil
}

// empty evicts the pods that leave a virtual node: those of the namespaces, or all if the node
// ends. over deletes them and waits for nothing. It returns what it waits for, empty if neither
// pods nor claims are left.
func (b *Borrowing) empty(ctx context.Context, node string, namespaces []string, ends, over bool) (string, error) {
	if len(namespaces) == 0 && !ends {
		return "", nil
	}
	leaves := func(pod *corev1.Pod) bool { return ends || slices.Contains(namespaces, pod.Namespace) }
	message, err := b.evictor.Empty(ctx, node, leaves, over)
	switch {
	case err != nil || over:
		return "", err
	case message != "":
		return message, nil
	}
	claims, err := offload.BoundClaims(ctx, b.options.Reader, node, namespaces)
	if err != nil || len(claims) == 0 {
		return "", err
	}
	names, _ := offload.SortClaims(claims)
	return fmt.Sprintf("volumes at virtual node %s are still claimed: %s", node, strings.Join(names, " ")), nil
}
