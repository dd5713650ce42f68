package lending

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
)

const (
	// lookEvery is how often Run looks at what pods use, although nothing has changed.
	lookEvery = 15 * time.Second
	// restBetween is the least time between two looks, however often it changes.
	restBetween = time.Second
	// coverWithin is the time in which several pods of an account that end cause one look at its grant.
	coverWithin = 2 * time.Second
)

// attempt is what an account used after all its excess had been killed. Its node may be
// unreachable. Until the use changes, the account is looked at only every lookEvery, because each
// look lists pods.
type attempt struct {
	used amounts.List
	at   time.Time
}

// steady is the max of a plain consumer, and since when it is that.
type steady struct {
	max   amounts.List
	since time.Time
}

// Run deletes the pods that exceed what is reserved, soon after the use changes, until ctx ends.
func (u *Usage) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		wait := lookEvery
		u.triggerGrants(ctx)
		taken, err := u.takeBackAll(ctx)
		if err != nil && ctx.Err() == nil {
			u.options.Log.Warn("cannot take back what pods use beyond what is reserved", "error", err)
		}
		if taken { // the next look kills what was deleted
			wait = restBetween
		}
		rested, next := u.options.Clock.After(restBetween), u.options.Clock.After(wait)
		select {
		case <-u.options.Inventory.UseChanged():
			select {
			case <-rested:
			case <-ctx.Done():
			}
		case <-next:
		case <-ctx.Done():
		}
	}
	return nil
}

// triggerGrants has the grants of the accounts looked at whose pods came or went: a pod that has ended stays in
// Liqo's quota, and the grant covers it.
func (u *Usage) triggerGrants(ctx context.Context) {
	all, err := u.Accounts(ctx, "")
	if err != nil {
		return
	}
	for _, user := range u.options.Inventory.ChangedOwners() {
		a, known := all[user]
		if !known {
			continue
		}
		if namespace, err := liqo.TenantNamespace(ctx, u.options.Client, a.Consumer); err == nil && namespace != "" {
			u.Grants.AddAfter(namespace, a.Slice, coverWithin)
		}
	}
}

// takeBackAll looks at all accounts, and reports whether it deleted pods. For the graces after the start it
// deletes nothing: a Ledger that lost reservations learns them again from brokers, and until then their pods
// seem to exceed what is reserved.
func (u *Usage) takeBackAll(ctx context.Context) (taken bool, err error) {
	if u.options.Market.Now().Go().Sub(u.began) < u.options.Graces.Shrink+u.options.Graces.Excess {
		return false, nil
	}
	all, err := u.Accounts(ctx, "")
	maps.DeleteFunc(u.stuck, func(user string, _ attempt) bool { _, there := all[user]; return !there })
	maps.DeleteFunc(u.plain, func(user string, _ steady) bool { return all[user].Plain == nil })
	for user, a := range all {
		n, failed := u.fit(ctx, user, a)
		taken, err = taken || n > 0, errors.Join(err, failed)
	}
	return taken, err
}

// fit deletes the pods of an account that exceed what is bound and what has ended within the graces. It
// returns how many. They get no grace: the quota of each namespace admitted them only because quotas do not
// count together. What a pod needs beyond its requests, such as the overhead of a runtime class, counts, too.
func (u *Usage) fit(ctx context.Context, user string, a Account) (int, error) {
	now, ending := u.options.Market.Now().Go(), amounts.List(nil)
	for _, part := range slices.Concat(a.Ending, givenUp(a.Bound), givenUp(a.Ending)) {
		if now.Sub(part.Changed.Go()) < u.options.Graces.Shrink+2*u.options.Graces.Excess {
			ending = ending.Plus(part.Size)
		}
	}
	if a.Plain != nil && !u.settled(user, a, now) {
		return 0, nil
	}
	most, err := grant.Covers(a.Owed(), ending)
	if err != nil || len(most) == 0 { // then Freed deletes what stays
		return 0, err
	}
	used := u.used(user)
	if most.Fits(used.Only(most)) {
		delete(u.stuck, user)
		return 0, nil
	}
	if last := u.stuck[user]; slices.Equal(last.used, used) && now.Sub(last.at) < lookEvery {
		return 0, nil
	}
	n, err := grant.Excess{User: user, Keep: most.Resources()}.TakeBack(ctx, u.options.Reader, u.options.Client, now)
	if n == 0 && err == nil {
		u.stuck[user] = attempt{used, now}
	}
	if n > 0 {
		u.announce(ctx, a.Consumer, a.Slice, n)
	}
	return n, err
}

// settled reports whether a plain consumer is guarded and has had the same max for the graces. A max that is
// lowered leaves its pods these graces.
func (u *Usage) settled(user string, a Account, now time.Time) bool {
	last := u.plain[user]
	if !slices.Equal(last.max, a.Plain) || !u.IsGuarded(a.Consumer) {
		u.plain[user] = steady{a.Plain, now}
		return false
	}
	return now.Sub(last.since) >= u.options.Graces.Shrink+u.options.Graces.Excess
}

// announce records that pods were deleted: in the log, in the metric, and in an Event on the Peering.
func (u *Usage) announce(ctx context.Context, consumer, slice string, n int) {
	TakenBack.WithLabelValues("overuse").Add(float64(n))
	u.options.Log.Warn("pods used more than was lent: deleted", "consumer", consumer, "slice", slice, "pods", n)
	var p api.Peering
	key := client.ObjectKey{Namespace: u.options.Namespace, Name: api.PeeringName(consumer, api.RoleConsumer)}
	if u.options.Client.Get(ctx, key, &p) != nil {
		return
	}
	u.options.Events.Eventf(&p, nil, corev1.EventTypeWarning, "PodsTakenBack", "TakeBack", "%s",
		fmt.Sprintf("pods of %s used more than it has reserved (slice %s): %d were deleted", consumer, slice, n))
}
