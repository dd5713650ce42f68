package lending

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/instruction"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/market"
)

// overstay is the part of an instruction that says whether pods stay too long.
var overstay = instruction.Part{Manager: "bourse-overstay", Conditions: []string{api.ConditionOverstaying}}

// Freed reports whether nothing is left of a reservation that ends: it is not granted any more, and no pods
// use it. After the graces it deletes the pods that stay.
func (u *Usage) Freed(ctx context.Context, record *market.Reservation) (bool, error) {
	a, err := u.Account(ctx, record.Consumer, record.Slice())
	if err != nil {
		return false, err
	}
	rest, err := grant.Covers(a.Owed(), nil)
	if err != nil {
		return false, err
	}
	stays := u.exceeds(record, rest)
	if err := u.showOverstay(ctx, record, len(stays) > 0); err != nil {
		return false, err
	}
	if stays != nil {
		if !u.overdue(record) {
			return false, nil
		}
		return false, u.takeBack(ctx, record, rest)
	}
	return u.isGrantedAtMost(ctx, record, rest)
}

// isGrantedAtMost reports whether the slice of a reservation that ends grants no more than the rest of the account.
// Pods that have ended may take a part of the grant, which nothing runs by.
func (u *Usage) isGrantedAtMost(ctx context.Context, record *market.Reservation, rest amounts.List) (bool, error) {
	shown, covers, err := grant.ReadGrant(ctx, u.options.Client, record.Consumer, record.Slice())
	if err != nil {
		return false, err
	}
	// What the consumer's pods request, and so the grant that covers them, may be more than any amount.
	granted := amounts.Clamp(shown).Only(record.Size)
	if rest.Fits(granted) || !covers {
		return rest.Fits(granted), nil
	}
	taken, err := grant.Ended(ctx, u.options.Reader, grant.User(record.Slice(), record.Consumer))
	if err != nil {
		return false, err
	}
	return rest.Plus(amounts.Clamp(taken)).Fits(granted), nil
}

// AwaitGivenUp returns what it waits for while pods of a consumer use what its reservations gave up
// by becoming smaller. After the graces it deletes these pods.
func (u *Usage) AwaitGivenUp(ctx context.Context, consumer string) (waits string, err error) {
	all, err := u.Accounts(ctx, consumer)
	if err != nil {
		return "", err
	}
	for _, a := range all {
		rest, err := grant.Covers(a.Owed(), nil)
		if err != nil {
			return "", err
		}
		for _, part := range givenUp(a.Bound) {
			if u.exceeds(part, rest) == nil {
				continue
			}
			if u.overdue(part) {
				err = u.takeBack(ctx, part, rest)
			}
			return "pods use what " + consumer + " has given up", err
		}
	}
	return "", nil
}

// exceeds returns what pods use of the resources of an ending reservation if it does not fit into the rest of
// the account, and else nil.
func (u *Usage) exceeds(ends *market.Reservation, rest amounts.List) amounts.List {
	used := u.used(grant.User(ends.Slice(), ends.Consumer)).Only(ends.Size)
	if rest.Fits(used) {
		return nil
	}
	return used
}

// overdue reports whether the graces of a reservation that ends are over.
func (u *Usage) overdue(r *market.Reservation) bool {
	return u.options.Market.Now().Go().Sub(r.Changed.Go()) >= u.options.Graces.Shrink+u.options.Graces.Excess
}

// takeBack deletes the pods that exceed the rest of an account.
func (u *Usage) takeBack(ctx context.Context, record *market.Reservation, rest amounts.List) error {
	keep := api.Resources{}
	for name := range record.Size.Resources() {
		keep[name] = resource.Quantity{} // what no reservation has any more
	}
	maps.Copy(keep, rest.Resources())
	excess := grant.Excess{User: grant.User(record.Slice(), record.Consumer), Keep: keep,
		Patience: u.options.Graces.Excess}
	n, err := excess.TakeBack(ctx, u.options.Reader, u.options.Client, u.options.Market.Now().Go())
	if TakenBack.WithLabelValues("overstay").Add(float64(n)); n > 0 {
		u.options.Log.Warn("pods stayed longer than their reservation: deleted", "consumer", record.Consumer,
			"reservation", record.ID, "pods", n)
	}
	return err
}

// showOverstay shows on the instruction of a reservation that ends whether its pods stay too long. An Event
// says so when that begins, and Overstaying counts it.
func (u *Usage) showOverstay(ctx context.Context, record *market.Reservation, use bool) error {
	graces, ended := u.options.Graces, record.Changed.Go()
	stays := use && u.options.Market.Now().Go().Sub(ended) >= graces.Shrink
	u.setOverstaying(record.ID, stays)
	var i api.ProviderInstruction
	key := client.ObjectKey{Namespace: u.options.Namespace, Name: record.ID}
	if err := u.options.Client.Get(ctx, key, &i); err != nil {
		return client.IgnoreNotFound(err)
	}
	was := meta.FindStatusCondition(i.Status.Conditions, api.ConditionOverstaying)
	if was == nil && !stays {
		return nil
	}
	begins := stays && (was == nil || was.Status != metav1.ConditionTrue)
	c := metav1.Condition{Type: api.ConditionOverstaying, Status: metav1.ConditionFalse, Reason: "PodsAreGone"}
	if stays {
		c.Status, c.Reason = metav1.ConditionTrue, "PodsStay"
		c.Message = fmt.Sprintf("it ended (%s) at %s, but pods of %s still use more "+
			"than the cluster has left here: the agent deletes them from %s on",
			record.Reason, ended.Format(time.RFC3339), record.Consumer,
			ended.Add(graces.Shrink+graces.Excess).Format(time.RFC3339))
	}
	next := api.InstructionStatus{Conditions: []metav1.Condition{c}}
	if err := overstay.Write(ctx, u.options.Client, &i, &i.Status, next); err != nil {
		return err
	}
	if begins {
		u.options.Events.Eventf(&i, nil, corev1.EventTypeWarning, api.ConditionOverstaying, "Free", "%s", c.Message)
	}
	return nil
}

func (u *Usage) setOverstaying(id string, stays bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.overstaying[id] = true; !stays {
		delete(u.overstaying, id)
	}
}
