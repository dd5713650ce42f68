package market_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// assigned is what paris signed for rome, until in an hour; the acceptance binds for 90 seconds.
func assigned(id string, generation, cores int64, document string) market.Admit {
	return market.Admit{
		Assignment: api.Assignment{Reservation: id, Generation: generation,
			Consumer: "paris", Provider: "rome", Pool: "general", Until: (noon + 3_600_000).Meta()},
		Size: cpu(cores), Document: document, Acceptance: "yes to " +
			document, BindsUntil: noon + 90_000, Fence: api.Fence{Lineage: "l", Revision: 7},
	}
}

func TestGateAccepts(t *testing.T) {
	d := newGate(t)
	d.must(assigned("r", 1, 5, "doc"))
	d.want("r", api.Held, "", "rome", 3000)
	d.must(market.Commit{ID: "r", Generation: 1, Fence: api.Fence{Lineage: "l", Revision: 9}})
	d.want("r", api.Reserved, "", "rome", 3000)
	if r := d.state.Reservation("r"); r.Fence.Revision != 9 || r.Acceptance != "yes to doc" || r.Until != noon+3_600_000 {
		t.Errorf("committed as %s", dump(r))
	}
	// whose generation was verified with its signature
	d.must(market.Release{ID: "r", By: "paris", Reason: api.ReasonReleased, Document: "end"})
	d.want("r", api.Releasing, api.ReasonReleased, "rome", 3000)
	d.must(market.Free{ID: "r", Provider: "rome"})
	d.want("r", api.Released, api.ReasonReleased, "rome", 8000)
}

func TestAdmitErrors(t *testing.T) {
	change := func(change func(*market.Admit)) market.Admit {
		a := assigned("new", 1, 1, "new")
		change(&a)
		return a
	}
	for name, c := range map[string]struct {
		command market.Admit
		want    api.Code
	}{
		"for another gate":     {change(func(a *market.Admit) { a.Assignment.Provider = "milan" }), api.CodeForbidden},
		"for nobody":           {change(func(a *market.Admit) { a.Assignment.Provider = "" }), api.CodeForbidden},
		"of itself":            {change(func(a *market.Admit) { a.Assignment.Consumer = "rome" }), api.CodeForbidden},
		"too large":            {change(func(a *market.Admit) { a.Size = cpu(4) }), api.CodeInsufficient},
		"for an unknown pool":  {change(func(a *market.Admit) { a.Assignment.Pool = "gpu" }), api.CodeInsufficient},
		"another document":     {assigned("r", 1, 5, "another"), api.CodeConflict},
		"newer, but it counts": {assigned("r", 2, 1, "doc 2"), api.CodeConflict},
		"of another consumer": {change(func(a *market.Admit) {
			a.Assignment.Reservation,
				a.Assignment.Consumer = "over", "lyon"
		}), api.CodeConflict},
		"dropped, and once more": {assigned("over", 1, 1, "over"), api.CodeConflict},
	} {
		t.Run(name, func(t *testing.T) {
			d := newGate(t)
			over := assigned("over", 1, 1, "over")
			over.BindsUntil = noon + 1
			d.must(over)
			d.pass(time.Millisecond)
			d.must(assigned("r", 1, 5, "doc"))
			d.fails(c.want, c.command)
			d.want("r", api.Held, "", "rome", 3000)
		})
	}
}

// A gate that dropped an assignment accepts the next generation of it.
func TestGateAdmitsTheNextGeneration(t *testing.T) {
	d := newGate(t)
	d.must(assigned("r", 1, 5, "doc"))
	d.pass(90 * time.Second)
	d.want("r", api.Released, api.ReasonAcceptanceDropped, "rome", 8000)
	d.offers("rome", 2, "8")
	next := assigned("r", 2, 6, "doc 2")
	next.BindsUntil = d.now + 90_000
	d.must(next)
	d.want("r", api.Held, "", "rome", 2000)
}

// Two brokers cannot both place what there is once.
func TestGateAdmitsOnceWhatThereIsOnce(t *testing.T) {
	d := newGate(t)
	d.must(assigned("of-one-broker", 1, 5, "doc"))
	d.fails(api.CodeInsufficient, assigned("of-another", 1, 5, "doc"))
	adopted := assigned("of-another", 1, 5, "doc")
	adopted.Adopt = true // unless it was promised before
	d.must(adopted)
	d.want("of-another", api.Reserved, "", "rome", -2000)
	d.fails(api.CodeInsufficient, assigned("of-a-third", 1, 1, "doc"))
}

func TestGateWithoutPolicyAcceptsNothing(t *testing.T) {
	d := newGate(t)
	m, err := market.Measure(api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: 2}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.observe("rome", m, d.now); err != nil {
		t.Fatal(err)
	}
	d.fails(api.CodeInsufficient, assigned("r", 1, 1, "doc"))
}

func TestCommitErrors(t *testing.T) {
	d := newGate(t)
	d.must(assigned("r", 1, 1, "doc"))
	d.must(market.Note{Reservation: &market.Reservation{ID: "own",
		State: api.Held, Consumer: "rome", Provider: "milan", Generation: 1, Until: noon + 1000}})
	d.fails(api.CodeNotFound, market.Commit{ID: "none", Generation: 1})
	d.fails(api.CodeConflict, market.Commit{ID: "r", Generation: 2})
	d.fails(api.CodeForbidden, market.Commit{ID: "own", Generation: 1})
	d.must(market.Release{ID: "r", By: "rome"})
	d.fails(api.CodeConflict, market.Commit{ID: "r", Generation: 1})
	d.must(market.Free{ID: "r", Provider: "rome"})
	d.fails(api.CodeConflict, market.Commit{ID: "r", Generation: 1})
}

func TestNote(t *testing.T) {
	d := newGate(t)
	note := func(state api.State, revision uint64) market.Note {
		return market.Note{Reservation: &market.Reservation{ID: "own",
			State: state, Consumer: "rome", Provider: "milan", Pool: "general", Size: cpu(50),
			Generation: 1, Created: noon, Until: noon + 3_600_000, Fence: api.Fence{Lineage: "l", Revision: revision}}}
	}
	d.must(note(api.Held, 3))
	d.must(note(api.Reserved, 5))
	d.want("own", api.Reserved, "", "milan", 8000) // what it takes of others is not in its own books
	d.must(note(api.Held, 4))
	d.want("own", api.Reserved, "", "milan", 8000) // an older word changes nothing
	if out := d.must(note(api.Reserved, 5)); len(out.Events) > 0 {
		t.Errorf("heard twice: %s", dump(out.Events))
	}
	d.must(market.Release{ID: "own", By: "rome", Reason: api.ReasonReleased, Document: "end"})
	d.must(note(api.Active, 8))
	d.want("own", api.Releasing, api.ReasonReleased, "milan", 8000) // what we ended stays ended
	d.must(note(api.Released, 9))
	d.must(note(api.Active, 10))
	d.want("own", api.Released, "", "milan", 8000)
	foreign := note(api.Held, 1)
	foreign.Reservation.Consumer = "paris"
	d.fails(api.CodeForbidden, foreign)
	foreign.Reservation.Consumer, foreign.Reservation.Provider = "rome", "rome"
	d.fails(api.CodeForbidden, foreign)
}

func TestPin(t *testing.T) {
	d := newGate(t)
	d.must(market.Pin{Cluster: "paris", Key: "k"})
	d.must(market.Pin{Cluster: "paris", Key: "k"})
	d.fails(api.CodeKeyChanged, market.Pin{Cluster: "paris", Key: "another"})
	if m := d.state.Member("paris"); m.Key != "k" || m.Joined != noon {
		t.Errorf("pinned as %s", dump(m))
	}
}

// What the admin says goes before what was seen first, before a first contact and after it.
func TestTrust(t *testing.T) {
	d := newGate(t)
	d.fails(api.CodeInvalid, market.Trust{Cluster: "No Name", Fingerprint: "of k"})
	confirmed := func(cluster, key string, want bool) {
		t.Helper()
		if m := d.state.Member(cluster); m.Key != key || m.Confirmed != want {
			t.Errorf("%s", dump(m))
		}
	}
	d.must(market.Trust{Cluster: "paris", Fingerprint: "of k"})
	confirmed("paris", "", false)
	d.fails(api.CodeKeyChanged, market.Pin{Cluster: "paris", Key: "forged", Fingerprint: "of forged"})
	d.must(market.Pin{Cluster: "paris", Key: "k", Fingerprint: "of k"})
	confirmed("paris", "k", true)

	d.must(market.Trust{Cluster: "paris", Fingerprint: "of new"})
	confirmed("paris", "k", false) // what is bound goes on under the old key, until the new one is seen
	d.fails(api.CodeKeyChanged, market.Pin{Cluster: "paris", Key: "k", Fingerprint: "of k"})
	d.must(market.Pin{Cluster: "paris", Key: "new", Fingerprint: "of new"})
	confirmed("paris", "new", true)

	d.must(market.Trust{Cluster: "paris"})
	confirmed("paris", "new", false)
	d.must(market.Pin{Cluster: "paris", Key: "new", Fingerprint: "of new"})
	d.fails(api.CodeKeyChanged, market.Pin{Cluster: "paris", Key: "k", Fingerprint: "of k"})

	d.must(market.Pin{Cluster: "rouen", Key: "k", Fingerprint: "of k"})
	d.must(market.Pin{Cluster: "rouen", Key: "k", Fingerprint: "of k", Endorsed: 5})
	confirmed("rouen", "k", true)
	d.must(market.Pin{Cluster: "rouen", Key: "next", Fingerprint: "of next", Endorsed: 6})
	confirmed("rouen", "next", true)
	// an old word of the root's
	d.fails(api.CodeKeyChanged, market.Pin{Cluster: "rouen", Key: "k", Fingerprint: "of k", Endorsed: 5})
	d.fails(api.CodeKeyChanged, market.Pin{Cluster: "rouen", Key: "k", Fingerprint: "of k", Endorsed: 6})
	d.must(market.Trust{Cluster: "rouen", Fingerprint: "of next"})
	// the admin's goes before it
	d.fails(api.CodeKeyChanged, market.Pin{Cluster: "rouen", Key: "last", Fingerprint: "of last", Endorsed: 7})

	d.must(market.Pin{Cluster: "rouen", Key: "next", Fingerprint: "of next"})
	d.must(market.Trust{Cluster: "rouen", Fingerprint: "of next", Address: "rouen.example:7444"})
	confirmed("rouen", "next", true) // an address changes nothing of the key
	if at := d.state.Member("rouen").ConnectorURL(); at != "https://rouen.example:7444" {
		t.Errorf("rouen's connector is at %q", at)
	}
	d.must(market.Trust{Cluster: "rouen", Fingerprint: "of next", Address: "[2001:db8::1]:7444"})
	if at := d.state.Member("rouen").ConnectorURL(); at != "https://[2001:db8::1]:7444" {
		t.Errorf("rouen's connector is at %q", at)
	}
	for _, wrong := range []string{"rouen", "https://rouen:1", "a@rouen:1", "rouen:0", "rouen:1/x", ":1", "[::1]",
		"2001:db8::1:7444", "[fe80::1%eth0]:7444", "rouen:123456"} {
		d.fails(api.CodeInvalid, market.Trust{Cluster: "rouen", Fingerprint: "of next", Address: wrong})
	}

	d.must(market.Trust{Cluster: "oslo"}) // no word of a cluster that nobody knows is no word
	if d.state.Member("oslo") != nil {
		t.Error("oslo is remembered")
	}
}
