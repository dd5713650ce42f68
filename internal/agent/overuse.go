package agent

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
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/market"
)

// atLeast is the time between two looks at what pods use, however often it changes.
const atLeast = time.Second

// tried is what an account used when all that was too much had been killed before, and was still there: its node may be away. Until
// that changes it is looked at less often, because each look lists pods.
type tried struct {
	used market.Amounts
	at   time.Time
}

// followUse takes back what pods use beyond what is reserved, as soon as it changes and at most once a second, until ctx ends.
func (l *lend) followUse(ctx context.Context) error {
	for ctx.Err() == nil {
		wait := later
		taken, err := l.takeMore(ctx)
		if err != nil && ctx.Err() == nil {
			l.log.Warn("cannot take back what pods use beyond what is reserved", "error", err)
		}
		if taken { // what was deleted is killed next
			wait = atLeast
		}
		rest, next := time.After(atLeast), time.After(wait)
		select {
		case <-l.inventory.UseChanged():
			select {
			case <-rest:
			case <-ctx.Done():
			}
		case <-next:
		case <-ctx.Done():
		}
	}
	return nil
}

// takeMore looks at all accounts, and says whether it took pods back. For the graces after the start it takes nothing: a Ledger that
// lost reservations learns them one by one from brokers, and meanwhile their pods seem to be too much.
func (l *lend) takeMore(ctx context.Context) (taken bool, err error) {
	if l.market.Now().Go().Sub(l.began) < l.graces.shrink+l.graces.excess {
		return false, nil
	}
	all, err := l.accounts(ctx, "")
	maps.DeleteFunc(l.tried, func(user string, _ tried) bool { _, there := all[user]; return !there })
	for user, a := range all {
		n, failed := l.fit(ctx, user, a)
		taken, err = taken || n > 0, errors.Join(err, failed)
	}
	return taken, err
}

// fit deletes the pods of an account that use more than is bound and what has ended within the graces, at once: had the quotas of its
// namespaces counted together, they would not have been let in. It returns how many. What a pod needs beyond what its consumer counted,
// such as the overhead of a runtime class, is too much as well.
func (l *lend) fit(ctx context.Context, user string, a account) (int, error) {
	now, ending := l.market.Now().Go(), market.Amounts(nil)
	for _, part := range slices.Concat(a.ending, a.givenUp(), account{bound: a.ending}.givenUp()) {
		if now.Sub(part.Changed.Go()) < l.graces.shrink+2*l.graces.excess {
			ending = ending.Plus(part.Size)
		}
	}
	most, err := covers(a.owed(), ending)
	if err != nil || len(most) == 0 { // what stays is taken back before it is freed
		return 0, err
	}
	used, err := market.Have("used", l.inventory.Used(user))
	if err != nil || most.Fits(used.Only(most)) {
		delete(l.tried, user)
		return 0, err
	}
	if last := l.tried[user]; slices.Equal(last.used, used) && now.Sub(last.at) < later {
		return 0, nil
	}
	n, err := grant.Excess{User: user, Keep: most.Resources()}.TakeBack(ctx, l.reader, l.Client, now)
	if n == 0 && err == nil {
		l.tried[user] = tried{used, now}
	}
	if n > 0 {
		one := slices.Concat(a.bound, a.ending)[0]
		l.tell(ctx, one.Consumer, one.Slice(), n)
	}
	return n, err
}

// tell says that pods were taken back: in the log, in the metric, and in an Event on the Peering.
func (l *lend) tell(ctx context.Context, consumer, slice string, n int) {
	takenBack.WithLabelValues("overuse").Add(float64(n))
	l.log.Warn("pods used more than was lent: deleted", "consumer", consumer, "slice", slice, "pods", n)
	var p api.Peering
	if l.late.events == nil || l.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: api.PeeringName(consumer, api.RoleConsumer)}, &p) != nil {
		return
	}
	l.late.events.Eventf(&p, nil, corev1.EventTypeWarning, "PodsTakenBack", "TakeBack", "%s",
		fmt.Sprintf("pods of %s used more than it has reserved (slice %s): %d were deleted", consumer, slice, n))
}
