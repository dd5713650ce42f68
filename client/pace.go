package client

import (
	"context"

	"golang.org/x/time/rate"
)

// perEvent is what an event of a watch costs beside its memory, in bytes: as much as is decoded in the time that
// handling it takes.
const perEvent = 1 << 10

// WithPace returns a client that decodes at most burst bytes of its watches at once, and then at most perSecond, as
// they are estimated to take in memory. What a server sends beyond that waits in the connection. All watches of the
// client together have this pace. It is for a process that serves others beside this server. Without it there is no
// such bound.
func (c *Client) WithPace(burst, perSecond int64) *Client {
	with := *c
	with.pace = rate.NewLimiter(rate.Limit(perSecond), int(burst))
	return &with
}

// keepPace waits until an event may be decoded that takes cost bytes. Errors: ctx ended.
func (c *Client) keepPace(ctx context.Context, cost int64) error {
	if c.pace == nil {
		return nil
	}
	return c.pace.WaitN(ctx, min(int(cost)+perEvent, c.pace.Burst()))
}
