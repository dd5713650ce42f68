package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
)

// askAgain is how often a command with --watch asks its questions anew: they have no watch.
var askAgain = 5 * time.Second

// gather is how long a command with --watch waits for more changes before it reads again.
const gather = 100 * time.Millisecond

// watching is a command with --watch.
type watching struct {
	ctx     context.Context
	objects bool          // it has watches of objects
	changed chan struct{} // has one element once an object changed
}

// change notes that an object changed.
func (w *watching) change() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// wait waits until there may be something new to show. It reports whether the command was interrupted.
func (w *watching) wait() (over bool) {
	if !w.objects { // an agent's own listener, or a broker
		return pause(w.ctx, time.Second)
	}
	select {
	case <-w.ctx.Done():
		return true
	case <-time.After(askAgain):
	case <-w.changed:
		if pause(w.ctx, gather) {
			return true
		}
		select {
		case <-w.changed: // what follows reads it
		default:
		}
	}
	return false
}

// watched makes the client of a command with --watch read objects from watches.
func (sh *shell) watched(c *cluster.Client, config *rest.Config) (*cluster.Client, error) {
	if sh.watching == nil {
		return c, nil
	}
	objects, err := cluster.NewWatched(sh.watching.ctx, config, sh.watching.change)
	if err != nil {
		return nil, err
	}
	sh.watching.objects = true
	return c.ReadFrom(objects), nil
}

// watchable gives a command that lists something the flag --watch. It then runs again when an object changed that it
// read, until it is interrupted, and prints the rows that are new. JSON and YAML are printed whole after each change.
func (sh *shell) watchable(cmd *cobra.Command) *cobra.Command {
	watch := false
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "keep running, and print what changes")
	once := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !watch {
			return once(cmd, args)
		}
		out, progress := sh.out, sh.progress
		defer func() { sh.out, sh.progress = out, progress }()
		sh.watching = &watching{ctx: cmd.Context(), changed: make(chan struct{}, 1)}
		var seen, notesBefore string
		for {
			var page, notes bytes.Buffer
			sh.out, sh.progress = &page, &notes
			err := once(cmd, args)
			if cmd.Context().Err() != nil {
				return nil
			}
			if notes.String() != notesBefore {
				fmt.Fprint(progress, notes.String())
			}
			sh.writeNew(out, seen, page.String())
			if err != nil {
				return err
			}
			seen, notesBefore = page.String(), notes.String()
			if sh.watching.wait() {
				return nil
			}
		}
	}
	return cmd
}

// writeNew writes the rows of a page that the page before lacks.
func (sh *shell) writeNew(out io.Writer, before, now string) {
	if sh.encodes() && sh.output != "custom-columns" {
		if now != before {
			fmt.Fprint(out, now)
		}
		return
	}
	rows := strings.SplitAfter(before, "\n")
	for row := range strings.Lines(now) {
		if !slices.Contains(rows, row) {
			fmt.Fprint(out, row)
		}
	}
}

// await reads an object that a user wrote until the agent has answered it, for 20 s at most, and
// returns the newest version. The first reads may return an older version or nothing. Errors: those
// of reading, and of ctx.
func await[T any](ctx context.Context, made api.Envelope[T],
	all func(context.Context) ([]api.Envelope[T], error), matches func(api.Envelope[T]) bool) (api.Envelope[T], error) {
	now := made
	answered := func(context.Context) (bool, error) {
		items, err := all(ctx)
		i := slices.IndexFunc(items, func(item api.Envelope[T]) bool {
			return item.ID == made.ID && item.Revision >= made.Revision
		})
		if err != nil || i < 0 {
			return false, err
		}
		now = items[i]
		return matches(now), nil
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 20*time.Second, true, answered)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return now, nil // the caller shows what is known
	}
	return now, err
}

// conditionOf returns the condition of a type. It is the zero condition if there is none.
func conditionOf(conditions []metav1.Condition, condition string) metav1.Condition {
	return ptr.Deref(meta.FindStatusCondition(conditions, condition), metav1.Condition{})
}

// observed returns the condition of a type, if it is about a revision or a later one.
func observed(conditions []metav1.Condition, condition string, revision uint64) *metav1.Condition {
	if c := meta.FindStatusCondition(conditions, condition); c != nil && uint64(c.ObservedGeneration) >= revision {
		return c
	}
	return nil
}
