package explain

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/trust"
)

// Reason returns a reason and a message. Messages of errors begin with a code, which is left out.
func Reason(reason, message string) string {
	message = api.WithoutCode(message)
	if message == "" {
		return reason
	}
	return reason + ": " + message
}

// Reservation says in one line what a reservation is: "r-1 of cpu=4 is Held on milan".
func Reservation(id string, p api.Reservation) string {
	text := fmt.Sprintf("%s of %s is %s", id, Sizes(p.Resources), p.State)
	if p.Provider != "" {
		text += " on " + p.Provider
	}
	return text + Because(p)
}

// Because returns why a reservation is in its state, in brackets after a space; empty if nothing says it.
func Because(p api.Reservation) string {
	if p.Reason == "" {
		return ""
	}
	return " (" + Reason(string(p.Reason), p.Message) + ")"
}

// Waiting says how a reservation waits or waited for a provider; empty if it did not.
func Waiting(p api.Reservation, now time.Time) string {
	switch w := p.Waiting; {
	case w == nil:
		return ""
	case p.State == api.Pending:
		return fmt.Sprintf("%s, with priority %d, at the latest until %s", Place(p, now), w.Priority,
			w.Until.Format(time.RFC3339))
	case w.Since.Before(&p.Created):
		return fmt.Sprintf("it waited for %s", p.Created.Sub(w.Since.Time).Round(time.Second))
	}
	return ""
}

// Place returns the place of a reservation in the queue and its waiting time: "number 2, waiting for 5m0s". It is empty
// if the reservation does not wait.
func Place(p api.Reservation, now time.Time) string {
	if p.State != api.Pending || p.Waiting == nil {
		return ""
	}
	age := now.Sub(p.Waiting.Since.Time).Round(time.Second)
	if p.Waiting.Position == 0 {
		return fmt.Sprintf("waiting for %s", age)
	}
	return fmt.Sprintf("number %d, waiting for %s", p.Waiting.Position, age)
}

// Group says that a reservation is a part of a split request; empty if it is none.
func Group(p api.Reservation) string {
	if len(p.Group) == 0 {
		return ""
	}
	return fmt.Sprintf("it is one of %d parts of a request; releasing one releases all: %s",
		len(p.Group), strings.Join(p.Group, ", "))
}

// BoughtDirectly says that the seller's connector sold a reservation, for which no broker decided.
func BoughtDirectly(p api.Reservation) string {
	return fmt.Sprintf("it was bought from %s itself: %s of plan %s", p.Provider, Count(int(p.Sale.Units), "unit"),
		p.Sale.Plan)
}

// Tried says why a provider that was asked does not serve a reservation.
func Tried(t api.Tried) string {
	if t.Reason == api.ReasonNotConfirmed {
		return fmt.Sprintf("held at %s, and not signed in time", t.Provider)
	}
	return fmt.Sprintf("asked %s, which did not accept: %s", t.Provider, Reason(string(t.Reason), t.Message))
}

// DecidedSize returns the size that the decision about a reservation is about. A rejected one that was tried in parts
// has the whole amount.
func DecidedSize(p api.Reservation, d api.Decision) api.Resources {
	if p.State == api.Rejected && d.Parts > 1 {
		return Part(p.Resources, d.Parts)
	}
	return p.Resources
}

// End returns when a reservation ends: earlier than agreed if its seller takes it back.
func End(p api.Reservation) metav1.Time {
	var early api.Reclaim
	if p.Reclaim != "" && trust.Claimed(p.Reclaim, &early) == nil && early.Effective.Before(&p.Until) {
		return early.Effective
	}
	return p.Until
}

// EndsIn says in how long a reservation ends: "5h", "ending"; empty if it takes no capacity.
func EndsIn(p api.Reservation, now time.Time) string {
	switch {
	case p.State == api.Releasing:
		return "ending"
	case !p.State.Counts():
		return ""
	}
	return Until(End(p), now)
}

// Change says to what a reservation is to change, or was not changed; empty for neither.
func Change(c *api.Change) string {
	switch {
	case c == nil:
		return ""
	case c.Pending():
		return "to " + Sizes(c.Resources) + " until " + c.Until.UTC().Format(time.RFC3339)
	}
	return "not to " + Sizes(c.Resources) + ": " + string(c.Reason)
}

// ReasonOf returns in few words why a reservation is in its state, with its place in the queue, or that it is a breach.
func ReasonOf(p api.Reservation, now time.Time) string {
	queued := Place(p, now)
	switch {
	case queued != "":
		return fmt.Sprintf("%s (%s)", p.Reason, queued)
	case p.Sale != nil && p.Reason == api.ReasonRevokedByProvider:
		return breach(p.Reason)
	}
	return string(p.Reason)
}

// breach is a reason for the end of a contract that breaks it.
func breach(reason api.Reason) string { return string(reason) + " (a breach)" }
