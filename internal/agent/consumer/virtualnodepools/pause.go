package virtualnodepools

import (
	"fmt"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// pause is how long a provider is not asked.
type pause struct {
	until time.Time
	next  time.Duration
	// change is that whose refusal began the pause, empty if something else did. Its refusal does not begin another.
	change string
	// less says that it refused to give less. Who refuses to give more may still be asked to give less.
	less bool
}

// pause keeps a provider from being asked for a while. refused is the request whose change it refused, nil if a
// reservation failed.
func (m *memory) pause(provider string, now time.Time, refused *child) {
	p := m.paused[provider]
	p.next = min(max(firstPause, 2*p.next), lastPause)
	p.until, p.change, p.less = now.Add(p.next), "", false
	if refused != nil {
		p.change, p.less = refused.changeName(), refused.record.Size.Fits(refused.record.Change.Size)
	}
	m.paused[provider] = p
}

// pauseFailed is pause for a reservation that failed. One that expired does not count against the provider: this
// agent, or the broker, was away until the hold ended.
func (m *memory) pauseFailed(provider string, now time.Time, failed *child) {
	if failed.record == nil || failed.record.State != api.Expired {
		m.pause(provider, now, nil)
	}
}

// mayAsk reports whether a provider may be asked for another size now.
func (m *memory) mayAsk(child *child, step vnp.Step, now time.Time) bool {
	p := m.paused[step.Provider]
	less := child != nil && child.record != nil && child.record.Size.Fits(step.Size)
	return !m.isPaused(step.Provider, now) || less && !p.less
}

// isPaused reports whether a provider is not asked for now.
func (m *memory) isPaused(provider string, now time.Time) bool {
	return now.Before(m.paused[provider].until)
}

// changeName names the last change of a reservation.
func (c *child) changeName() string {
	return fmt.Sprint(c.record.ID, "/", c.record.Change.Generation)
}

// refusedSize reports whether the size that a request asks for was refused.
func refusedSize(child *child, now time.Time) bool {
	refusal := child.refusal(now)
	if refusal == nil {
		return false
	}
	asked, err := amounts.ParseRequest("resources", child.Spec.Resources)
	return err == nil && !asked.Equal(child.record.Size) && asked.Equal(refusal.Size)
}

// refusal returns the change that was refused, or nil. A cap may be raised at any time. Its refusal therefore
// counts only until the agent asks for the same change again.
func (c *child) refusal(now time.Time) *market.Change {
	r := c.record
	if r == nil || !r.Bound() || r.Change == nil || r.Change.Reason == "" ||
		r.Change.Reason == api.ReasonCapReached && now.Sub(r.Changed.Go()) >= market.RetryTime {
		return nil
	}
	return r.Change
}
