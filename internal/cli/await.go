package cli

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// await reads an object that a user wrote until the agent has answered it, for 20 s at most, and
// returns the newest version. The first reads may return an older version or nothing. Errors: those
// of reading, and of ctx.
func await[T any](ctx context.Context, made api.Envelope[T],
	all func(context.Context) ([]api.Envelope[T], error), said func(api.Envelope[T]) bool) (api.Envelope[T], error) {
	enough := time.After(20 * time.Second)
	for now := made; ; {
		items, err := all(ctx)
		if err != nil {
			return now, err
		}
		i := slices.IndexFunc(items, func(item api.Envelope[T]) bool {
			return item.ID == made.ID &&
				item.Revision >= made.Revision
		})
		if i >= 0 {
			if now = items[i]; said(now) {
				return now, nil
			}
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-enough:
			return now, nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// observed returns the condition of a type, if it is about a revision or a later one.
func observed(conditions []metav1.Condition, condition string, revision uint64) *metav1.Condition {
	if c := meta.FindStatusCondition(conditions, condition); c != nil && uint64(c.ObservedGeneration) >= revision {
		return c
	}
	return nil
}
