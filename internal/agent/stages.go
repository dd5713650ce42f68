package agent

import (
	"context"

	"golang.org/x/sync/errgroup"
	ctrl "sigs.k8s.io/controller-runtime"
)

// room runs until ctx ends. An error ends all rooms.
type room interface {
	Run(ctx context.Context) error
}

// controller looks at objects when they change, from Control on.
type controller interface{ Control(ctrl.Manager) error }

// stages are the rooms of an agent, in the order in which they begin while it leads: first those that the
// others call while they start, then the controllers, and last those that act on what was read by then.
type stages struct {
	First       []room
	Controllers []controller
	// Measured is closed once the inventory knows the cluster. The rest begins then.
	Measured <-chan struct{}
	// Load reads what rooms in Then decide by.
	Load []func(ctx context.Context) error
	Then []room
}

// Run runs the rooms until ctx ends or one of them fails, and returns that error.
func (s *stages) Run(ctx context.Context, m ctrl.Manager) error {
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

// leaveOnly leaves what shows why this agent connects to nobody, and what waits until it may.
func (w *wiring) leaveOnly(finds, users room, asked interface {
	room
	controller
}) {
	measured := make(chan struct{})
	close(measured) // nothing that is left needs it
	w.stages = stages{First: []room{w.books, w.member, w.brokers}, Controllers: []controller{w.brokers, asked},
		Measured: measured, Then: []room{finds, users, asked}}
	if w.consumers != nil {
		w.stages.First = append(w.stages.First, w.consumers)
	}
}
