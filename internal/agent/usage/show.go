package usage

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/instruction"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
)

// use is the part of an instruction that says what is granted and used.
var use = instruction.Part{Manager: "bourse-use", Use: true}

// Show shows on the instruction of each reservation of a consumer what its account is granted and uses.
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
		shown := instruction.Use{Granted: granted, Used: u.options.Inventory.Used(user), SharedBy: len(a.Bound)}
		if len(shown.Used) > 0 {
			shown.Namespaces = u.options.Inventory.UsedByNamespace(user, "")
		}
		// Only the consumer knows which reservation a namespace is for.
		shown.Naming = func(string) (int, bool) { return len(a.Bound), true }
		for _, r := range a.Bound {
			var i api.ProviderInstruction
			if err := u.options.Client.Get(ctx, client.ObjectKey{Namespace: u.options.Namespace, Name: r.ID}, &i); err != nil {
				continue // it is shown when it exists
			}
			if granted == nil && i.Status.Granted == nil {
				continue // the slice comes soon
			}
			if err := use.Write(ctx, u.options.Client, &i, &i.Status, shown.Status(r.Size)); err != nil {
				return err
			}
		}
	}
	return nil
}
