package borrowing

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/instruction"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/trust"
)

// The parts of an instruction's status that borrowing writes.
var (
	slicePart, networkPart = instruction.SlicePart, instruction.NetworkPart
	offloadPart, podsPart  = instruction.OffloadPart, instruction.PodsPart
)

// condition makes one.
func condition(kind string, ok bool, reason, message string) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if ok {
		c.Status = metav1.ConditionTrue
	}
	return c
}

// show writes a part of the instruction of each loan. A loan whose instruction does not exist yet is shown at
// the next look.
func (b *Borrowing) show(ctx context.Context, loans []bound, part instruction.Part,
	next func(bound) api.InstructionStatus) error {
	for _, l := range loans {
		if _, err := b.showOne(ctx, l, part, next(l)); err != nil {
			return err
		}
	}
	return nil
}

// showOne does so for one loan, and reports whether it wrote.
func (b *Borrowing) showOne(
	ctx context.Context, l bound, part instruction.Part, next api.InstructionStatus,
) (bool, error) {
	if l.Object == nil {
		return false, nil
	}
	var i api.ReservationInstruction
	err := b.options.Client.Get(ctx, client.ObjectKey{Namespace: l.Object.Namespace, Name: l.ID}, &i)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	before := i.ResourceVersion
	err = part.Write(ctx, b.options.Client, &i, &i.Status, next)
	return i.ResourceVersion != before, err
}

// showCondition writes a part that has one condition.
func (b *Borrowing) showCondition(ctx context.Context, loans []bound, part instruction.Part, c metav1.Condition) error {
	return b.show(ctx, loans, part, func(bound) api.InstructionStatus {
		return api.InstructionStatus{Conditions: []metav1.Condition{c}}
	})
}

// showSlice shows for some loans of an account how far its slice is, what its pods use, and whether the provider
// holds it back. has are the loans that its virtual node serves. It writes a few at a time: more says that others wait.
func (b *Borrowing) showSlice(ctx context.Context, provider, slice string, loans, some []bound, s offload.SliceState,
	has map[string]bool) (more bool, err error) {
	suspension := condition(api.ConditionSuspended, s.Held != "", s.Held, trust.Text(s.Why))
	b.state(provider).suspension = &suspension
	if len(some) == 0 {
		return false, nil
	}
	reason := func(ok bool, yes string) string {
		if ok {
			return yes
		}
		return "Waiting"
	}
	message := func(ok bool, yes string) string {
		if ok {
			return yes
		}
		return s.Message
	}
	conditions := func(l bound) []metav1.Condition {
		granted, ready := s.Granted || has[l.ID], s.Ready || has[l.ID]
		all := []metav1.Condition{
			condition(api.ConditionPeered, true, "Peered", ""),
			condition(api.ConditionGranted, granted, reason(granted, "Granted"),
				message(granted, "the provider grants what is reserved")),
			condition(api.ConditionNodeReady, ready, reason(ready, "Ready"),
				message(ready, "the virtual node "+slice+" is Ready, with what is reserved")),
		}
		if s.Held != "" {
			all = append(all, suspension)
		}
		if len(s.LeftOut) > 0 {
			all = append(all, condition(api.ConditionLabelsDropped, true, "SentByProvider",
				trust.Text("the virtual node does not get the labels that "+provider+" sends: "+firstFew(s.LeftOut))))
		}
		return all
	}
	use := instruction.Use{SharedBy: len(loans),
		Account: api.AccountSum{Granted: s.Resources, Used: b.options.Inventory.UsedOn(slice)}}
	if len(use.Account.Used) > 0 {
		use.Namespaces = b.options.Inventory.UsedByNamespace("", slice)
	}
	granted, used := b.split(ctx, loans, use)
	wrote, naming := 0, countNaming(loans)
	for _, l := range some {
		use.Granted, use.Used = granted[l.ID], used[l.ID]
		use.Naming = func(namespace string) (all int, this bool) {
			return naming[namespace], slices.Contains(l.namespaces(), namespace)
		}
		next := use.Status(l.Size)
		next.Conditions = conditions(l)
		changed, err := b.showOne(ctx, l, slicePart, next)
		if err != nil {
			return false, err
		}
		if changed {
			wrote++
		}
		if b.state(provider).lastShown = l.ID; wrote == 2*atOnce {
			return true, nil
		}
	}
	return false, nil
}

// countNaming returns how many loans name each namespace.
func countNaming(loans []bound) map[string]int {
	all := map[string]int{}
	for _, l := range loans {
		names := l.namespaces()
		for i, name := range names {
			if !slices.Contains(names[:i], name) {
				all[name]++
			}
		}
	}
	return all
}

// split returns what each loan has of the grant of their account, and what the pods of its namespaces use of that, by
// reservation.
func (b *Borrowing) split(ctx context.Context, loans []bound, sum instruction.Use) (granted,
	used map[string]api.Resources) {
	var sizes []amounts.List
	var claims []claim
	for _, l := range loans {
		sizes, claims = append(sizes, l.Size), append(claims, b.claimOf(ctx, l))
	}
	uses := map[string]amounts.List{}
	for name, use := range sum.Namespaces {
		uses[name] = amounts.Clamp(use)
	}
	granted, used = map[string]api.Resources{}, map[string]api.Resources{}
	parts, covered := instruction.Split(sum.Account.Granted, sizes), coveredUse(claims, uses)
	for i, l := range loans {
		granted[l.ID], used[l.ID] = parts[i], covered[i].Resources()
	}
	return granted, used
}
