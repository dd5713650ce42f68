// Package lifecycle runs the rooms of an agent while it leads: first those that the others call
// while they start, then the controllers, and last those that act on what was read by then. Start
// at [Stages.Run].
package lifecycle

import (
	"context"

	"golang.org/x/sync/errgroup"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Room runs until ctx ends. An error ends all rooms.
type Room interface {
	Run(ctx context.Context) error
}

// Controller looks at objects when they change, from Control on.
type Controller interface{ Control(ctrl.Manager) error }

// Stages are the rooms of an agent, in the order in which they begin.
type Stages struct {
	First       []Room
	Controllers []Controller
	// Measured is closed once the inventory knows the cluster. The rest begins then.
	Measured <-chan struct{}
	// Load reads what rooms in Then decide by.
	Load []func(ctx context.Context) error
	Then []Room
}

// Run runs the rooms until ctx ends or one of them fails, and returns that error.
func (s *Stages) Run(ctx context.Context, m ctrl.Manager) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, room := range s.First {
		group.Go(func() error { return room.Run(ctx) })
	}
	group.Go(func() error {
		for _, c := range s.Controllers {
			if err := c.Control(m); err != nil {
				return err
			}
		}
		select {
		case <-s.Measured:
		case <-ctx.Done():
			return nil
		}
		for _, load := range s.Load {
			if err := load(ctx); err != nil {
				return err
			}
		}
		for _, room := range s.Then {
			group.Go(func() error { return room.Run(ctx) })
		}
		return nil
	})
	return group.Wait()
}
