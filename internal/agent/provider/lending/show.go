package lending

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/instruction"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
)

// use is the part of an instruction that says what is granted and used.
var use = instruction.Part{Manager: "bourse-use", Use: true}

// Show shows on the instruction of each reservation of a consumer what it and its account are granted and use.
func (u *Usage) Show(ctx context.Context, consumer string) error {
	all, err := u.Accounts(ctx, consumer)
	if err != nil {
		return err
	}
	for user, a := range all {
		if len(a.Bound) == 0 {
			continue
		}
		granted, covers, err := grant.ReadGrant(ctx, u.options.Client, consumer, a.Bound[0].Slice())
		if err != nil {
			return err
		}
		if covers { // pods that have ended: the account may use no more than it is owed
			granted = api.Resources(grant.AtMost(corev1.ResourceList(granted), a.Owed().Resources()))
		}
		shown := instruction.Use{SharedBy: len(a.Bound),
			Account: api.AccountSum{Granted: granted, Used: u.options.Inventory.Used(user)}}
		if len(shown.Account.Used) > 0 {
			shown.Namespaces = u.options.Inventory.UsedByNamespace(user, "")
		}
		// Only the consumer knows which reservation a namespace is for.
		shown.Naming = func(string) (int, bool) { return len(a.Bound), true }
		parts, uses := a.split(shown.Account)
		for n, r := range a.Bound {
			var i api.ProviderInstruction
			if err := u.options.Client.Get(ctx, client.ObjectKey{Namespace: u.options.Namespace, Name: r.ID}, &i); err != nil {
				continue // it is shown when it exists
			}
			if granted == nil && i.Status.Granted == nil {
				continue // the slice comes soon
			}
			shown.Granted, shown.Used = parts[n], uses[n]
			if err := use.Write(ctx, u.options.Client, &i, &i.Status, shown.Status(r.Size)); err != nil {
				return err
			}
		}
	}
	return nil
}

// split returns what each bound reservation has of a grant, and uses. The use is nil where it is not known: only the
// consumer knows whose the pods are.
func (a Account) split(sum api.AccountSum) (granted, used []api.Resources) {
	sizes := []amounts.List{a.Plain}
	for _, r := range a.Bound {
		sizes = append(sizes, r.Size)
	}
	granted, used = instruction.Split(sum.Granted, sizes)[1:], make([]api.Resources, len(a.Bound))
	if len(a.Bound) == 1 && len(a.Ending) == 0 && a.Plain == nil {
		used = instruction.Split(sum.Used, sizes[1:])
	}
	return granted, used
}
