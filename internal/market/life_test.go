package market_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// ways are the only steps in the life of a reservation, and the only commands that take them: "" is
// not known yet, or not any more.
var ways = map[string]string{
	" -> Held":             "Hold HoldTogether Admit",
	" -> Pending":          "Hold",
	"Pending -> Held":      "Serve",
	"Held -> Pending":      "Refuse Tick", // nobody accepted, and it waits on
	"Pending -> Rejected":  "Tick",
	"Pending -> Failed":    "Release Tick",
	"Pending -> Expired":   "Tick",        // at a consumer's agent: nothing more was heard of it
	"Pending -> Releasing": "Release",     // there, too: its object is gone
	" -> Reserved":         "Admit Adopt", // a gate takes back what its Ledger lost, a broker what its journal did
	"Held -> Held":         "Confirm Refuse Tick Approve",
	"Held -> Reserved":     "Accept Commit Admit",           // the last where the gate's Ledger lost that it is bound
	"Held -> Failed":       "Release Refuse Tick Deny Free", // the last where another part comes to nothing
	"Held -> Expired":      "Tick",
	"Held -> Released":     "Tick", // at a gate: the commit did not come
	"Held -> Releasing":    "Release Refuse Tick Free",
	"Reserved -> Active":   "Activate",
	// A change: asked for, and answered or not.
	"Reserved -> Reserved":  "Reassign Accept Refuse Tick Admit Commit",
	"Active -> Active":      "Reassign Accept Refuse Tick",
	"Reserved -> Releasing": "Release Tick",
	"Active -> Releasing":   "Release Tick",
	"Reserved -> Released":  "Tick",
	"Active -> Released":    "Tick",
	// Only the provider gives capacity back, or, after an operator has removed the provider, the next tick.
	"Releasing -> Released":  "Free Tick",
	"Releasing -> Releasing": "Release",
	"Failed -> Held":         "Admit", // nobody approved one generation, and the next waits
	"Failed -> Reserved":     "Admit",
	"Released -> Held":       "Admit", // a gate dropped one generation and accepts the next
	"Released -> Reserved":   "Admit", // one generation dropped, the next lost and taken back
	"Released -> ":           "Tick",
	"Rejected -> ":           "Tick",
	"Failed -> ":             "Tick",
	"Expired -> ":            "Tick",
}

// lived checks that since the last time every reservation went only ways that the command may take it.
func (f *federation) lived(n *node, c market.Command) {
	if conditional, ok := c.(market.IfRevision); ok {
		c = conditional.Command
	}
	command := strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", c), "*"), "market.")
	lives := map[string]market.Reservation{}
	counts := map[api.State]int{}
	for _, r := range n.state.All() {
		// a restored broker may tell of older ones
		if lives[r.ID] = *r; r.Generation < f.lives[n][r.ID].Generation && command != "Note" {
			f.t.Fatalf("%s took %s from generation %d to %d", command, r.ID, f.lives[n][r.ID].Generation, r.Generation)
		}
		f.went(command, f.lives[n][r.ID], *r)
		counts[r.State]++
		for _, party := range []string{r.Consumer, r.Provider, "lyon"} {
			sees := slices.ContainsFunc(n.state.Of(party, r.Revision-1),
				func(o *market.Reservation) bool { return o.ID == r.ID })
			if want := party != "" && (party == r.Consumer || party == r.Provider && r.Assignment != ""); sees != want {
				f.t.Fatalf("%s: does %q see it? %v, want %v", dump(r), party, sees, want)
			}
		}
	}
	for id, was := range f.lives[n] {
		if _, still := lives[id]; !still {
			f.went(command, was, market.Reservation{ID: id})
		}
	}
	for _, state := range api.States {
		if n.state.Count()[state] != counts[state] {
			f.t.Fatalf("%d are %s, but Count says %d", counts[state], state, n.state.Count()[state])
		}
		delete(counts, state)
	}
	if len(counts) > 0 {
		f.t.Fatalf("unknown states: %v", counts)
	}
	f.lives[n] = lives
	if n == f.broker {
		f.together()
	}
}

// together checks that the parts of a request are on different providers, and that none is held any
// more where one failed.
func (f *federation) together() {
	for _, r := range f.broker.state.All() {
		on := map[string]string{}
		failed := false
		var parts []*market.Reservation
		for _, id := range r.Group {
			part := f.broker.state.Reservation(id)
			if part == nil { // forgotten, or lost with a journal that was put back
				continue
			}
			failed = failed || part.State.Over() && part.Acceptance == "" && part.State != api.Released
			parts = append(parts, part)
			if other := on[part.Provider]; other != "" && !part.State.Over() {
				f.t.Fatalf("%s and %s are both on %s", other, id, part.Provider)
			}
			if !part.State.Over() {
				on[part.Provider] = id
			}
		}
		for _, part := range parts {
			if failed && part.State == api.Held && !f.torn {
				f.t.Fatalf("%s is held, and another part failed: %s", part.ID, dump(parts))
			}
		}
	}
}

func (f *federation) went(command string, from, to market.Reservation) {
	if from.Revision == to.Revision {
		return
	}
	if command == "Note" { // what a broker says, who does not do as it likes
		if from.State != "" && from.State.Over() || from.State == api.Releasing &&
			!to.State.Over() && to.State != api.Releasing {
			f.t.Fatalf("%s: noted from %s to %s", to.ID, from.State, to.State)
		}
		return
	}
	way := fmt.Sprintf("%s -> %s", from.State, to.State)
	if !slices.Contains(strings.Fields(ways[way]), command) {
		f.t.Fatalf("%s: %s, by %s", to.ID, way, command)
	}
	freed := from.State == api.Releasing && to.State == api.Released
	waited := to.Changed >= max(from.Ended, from.Created)+int64Time(market.FreeTime)
	if freed && command == "Tick" && to.Reason != api.ReasonMemberRemoved && !waited {
		f.t.Fatalf("%s was freed without its provider: %s", to.ID, dump(to))
	}
}

// remember begins to follow the lives of a restarted market.
func (f *federation) remember(n *node) {
	f.lives[n] = map[string]market.Reservation{}
	for _, r := range n.state.All() {
		f.lives[n][r.ID] = *r
	}
}
