package market_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
)

// After any commands in any order: accounts are right, nothing is placed twice, decisions change nothing, repeats
// change nothing, and a journal gives back the state, up to any crash.
func TestAnythingInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFederation(t)
		acts := []func(*rapid.T){
			f.hold, f.step, f.step, f.step, f.hold, f.step, f.step, f.timePasses, f.refuse, f.release, f.free, f.confirm, f.accept,
			f.change, f.step, f.change, f.activate, f.advertiseAny, f.admit, f.commit, f.gateReleases, f.gateFrees, f.note, f.conditional, f.members, f.restartAny, f.approve,
			f.publish, f.buy, f.step, f.buy, f.withdraw, f.adopt, f.serve, f.serve, f.split, f.split,
		}
		for range rapid.IntRange(20, 200).Draw(t, "acts") {
			rapid.SampledFrom(acts).Draw(t, "act")(t)
			f.check()
		}
	})
}

// check checks what must hold between any two things that happen.
func (f *federation) check() {
	f.broker.check()
	for _, gate := range f.gates {
		gate.check()
	}
}

func (f *federation) timePasses(t *rapid.T) {
	f.now += market.Time(rapid.SampledFrom([]time.Duration{
		0, time.Millisecond, time.Second, 29 * time.Second, market.HoldTime, market.Lease, market.DecideTime, 2 * time.Hour, market.Retention,
	}).Draw(t, "time").Milliseconds())
	f.pass(f.broker)
	for _, c := range clusters {
		f.pass(f.gates[c])
	}
}

func (f *federation) hold(t *rapid.T) {
	size := amounts.List{{Resource: "cpu", Value: rapid.Int64Range(1, 5).Draw(t, "cpu") * 1000}}
	if rapid.Bool().Draw(t, "with gpu") {
		size = append(size, amounts.Amount{Resource: "nvidia.com/gpu", Value: rapid.Int64Range(1, 3).Draw(t, "gpu")})
	}
	id := f.next("r")
	if f.rarely("known") {
		id = f.some(f.broker).ID
	}
	candidates := f.candidates()
	var plans map[string]*api.Sale // under a ceiling, some of them sell
	if o := f.broker.state.OnSale("rome", "web"); o != nil && rapid.Bool().Draw(t, "under a ceiling") {
		plans = map[string]*api.Sale{"rome": {Offer: o.Digest,
			Plan: rapid.SampledFrom([]string{"small", "any", "none"}).Draw(t,
				"plan"), Units: rapid.Int64Range(1, 4).Draw(t, "units")}}
	}
	request := &api.Request{Resources: size.Resources()}
	if rapid.Bool().Draw(t, "waits") {
		request.Wait = &metav1.Duration{Duration: rapid.SampledFrom([]time.Duration{time.Second, time.Hour}).Draw(t, "wait")}
		request.Priority = rapid.Int32Range(-1, 1).Draw(t, "priority")
		if rapid.Bool().Draw(t, "for room") {
			candidates = nil
		}
	}
	out, err := f.do(f.broker, &market.Hold{
		Plans: plans,
		ID:    id, Key: rapid.SampledFrom([]string{"", "", "", "a", "b", "c\x00\u2028"}).Draw(t,
			"key"), Digest: rapid.SampledFrom([]string{"d", "e"}).Draw(t, "digest"),
		Consumer: f.cluster(), Pool: "general", Size: size, Request: request,
		Duration: rapid.SampledFrom([]time.Duration{time.Minute, time.Hour}).Draw(t, "duration"), Candidates: candidates,
		Decision: &api.Decision{Considered: 3, Candidates: len(candidates)},
	})
	if err == nil && len(out.Events) > 0 && out.Reservation.State == api.Held {
		if p := f.broker.pool(out.Reservation.Provider); p.Available.Of("cpu") < 0 {
			t.Fatalf("held where there is nothing: %s", dump(p))
		}
	}
}

// split holds two or three parts of one request, or none.
func (f *federation) split(t *rapid.T) {
	var c market.HoldTogether
	n := rapid.IntRange(2, 3).Draw(t, "parts")
	consumer, key := f.cluster(), rapid.SampledFrom([]string{"", "s"}).Draw(t, "key")
	candidates := f.candidates()
	for range n {
		c.Parts = append(c.Parts, &market.Hold{ID: f.next("part"),
			Digest: "d", Consumer: consumer, Pool: "general", Size: cpu(rapid.Int64Range(1, 3).Draw(t, "cpu")),
			Duration: time.Hour, Candidates: candidates, Request: &api.Request{Split: 3}, Decision: &api.Decision{Considered: 3,
				Parts: n}})
	}
	c.Parts[0].Key = key
	out, err := f.do(f.broker, c)
	if len(out.Events) != n && len(out.Events) != 0 || err != nil && len(out.Events) > 0 {
		t.Fatalf("%d of %d parts: %v", len(out.Events), n, err)
	}
}

// serve is capacity that appears for something that waits, or does not.
func (f *federation) serve(t *rapid.T) {
	r := f.some(f.broker)
	if all := f.broker.state.Waiting(); len(all) > 0 && !f.rarely("not waiting") {
		r = rapid.SampledFrom(all).Draw(t, "waiting")
	}
	if known := f.broker.state.Reservation(r.ID); known != nil {
		r = known
	}
	out, err := f.do(f.broker, market.Serve{ID: r.ID, Candidates: f.candidates(), Decision: &api.Decision{Considered: 3}})
	if err == nil {
		if now := out.Reservation; now.State != api.Held || now.Until-now.Created != r.Until-r.Created ||
			now.Created != f.now || now.Since() != r.Since() {
			t.Fatalf("served %s as %s", dump(r), dump(now))
		}
	}
}

func (f *federation) confirm(*rapid.T) {
	r := f.some(f.broker)
	a := f.assignment(r)
	f.do(f.broker, market.Confirm{ID: r.ID, Consumer: f.party(r.Consumer),
		Generation: a.Generation, Document: documentOf(a)})
}

// change is a consumer's wish to have more or less, for longer or shorter.
func (f *federation) change(t *rapid.T) {
	r := f.some(f.broker)
	a := f.assignment(r)
	if !f.rarely("not newer") {
		a.Generation = r.Latest() + 1
	}
	cores, units := rapid.Int64Range(1, 7).Draw(t, "cpu"), int64(0)
	if r.Sale != nil {
		cores = min(cores, 4)
		units = cores
	}
	f.do(f.broker, market.Reassign{ID: r.ID, Consumer: f.party(r.Consumer), Generation: a.Generation,
		Size: cpu(cores), Units: units, From: f.now / 1000 * 1000,
		Until:    f.now + market.Time(rapid.SampledFrom([]int64{-1, 1, 60_000, 3_600_000, 7_200_000}).Draw(t, "until")),
		Document: documentOf(a)})
}

func (f *federation) accept(*rapid.T) {
	r := f.some(f.broker)
	provider, generation := f.party(r.Provider), f.generation(r)
	f.do(f.broker, market.Accept{ID: r.ID, Provider: provider, Generation: generation, Document: "yes of " + provider})
}

func (f *federation) refuse(*rapid.T) {
	r := f.some(f.broker)
	f.do(f.broker, market.Refuse{ID: r.ID, By: f.party(r.Provider),
		Generation: f.generation(r), Reason: api.ReasonInsufficient, Message: "no"})
}

func (f *federation) activate(*rapid.T) {
	r := f.some(f.broker)
	f.do(f.broker, market.Activate{ID: r.ID, Consumer: f.party(r.Consumer)})
}

func (f *federation) ending(t *rapid.T, r *market.Reservation) market.Release {
	by := f.party(rapid.SampledFrom([]string{r.Consumer, r.Provider}).Draw(t, "side"))
	return market.Release{ID: r.ID, By: by, Generation: f.generation(r), Reason: api.ReasonReleased,
		Document: rapid.SampledFrom([]string{"", "end"}).Draw(t, "document")}
}

func (f *federation) release(t *rapid.T) { f.do(f.broker, f.ending(t, f.some(f.broker))) }

func (f *federation) free(*rapid.T) {
	r := f.some(f.broker)
	f.do(f.broker, market.Free{ID: r.ID, Provider: f.party(r.Provider)})
}

func (f *federation) admit(t *rapid.T) {
	r := f.some(f.broker)
	a := f.assignment(r)
	if a.Provider == "" {
		return
	}
	size := r.Size
	if c := r.Changing(); c != nil && !f.rarely("what was") {
		a, size = changed(a, r), c.Size
	}
	f.do(f.gates[a.Provider], market.Admit{Assignment: a, Size: size,
		Document: documentOf(a), Acceptance: "yes of " + a.Provider,
		BindsUntil: r.HeldUntil + 30_000, Adopt: f.rarely("adopt"), Offer: f.offerOf(r)})
}

// adopt tells the broker what a gate accepted, which it may have lost.
func (f *federation) adopt(t *rapid.T) {
	gate := f.gates[rapid.SampledFrom(providers).Draw(t, "provider")]
	if r := f.some(gate); r.Provider == gate.state.Self && r.Bound() {
		f.do(f.broker, market.Adopt{Assignment: market.AssignmentOf(r, "ck", "pk"),
			Size: r.Size, Document: r.Assignment, Acceptance: r.Acceptance, Offer: f.offerOf(r)})
	}
}

func (f *federation) commit(*rapid.T) {
	gate := f.gates[f.cluster()]
	r := f.some(gate)
	f.do(gate, market.Commit{ID: r.ID, Generation: f.generation(r),
		Fence: api.Fence{Lineage: "l", Revision: f.broker.state.Revision}})
}

// approve is what people at a gate say, in time or not, of what waits for them or not.
func (f *federation) approve(t *rapid.T) {
	gate := f.gates[f.cluster()]
	r := f.some(gate)
	before := api.State("")
	if known := gate.state.Reservation(r.ID); known != nil {
		before = known.State
	}
	if rapid.Bool().Draw(t, "yes") {
		f.do(gate, market.Approve{ID: r.ID, Generation: f.generation(r), Acceptance: "yes"})
	} else {
		f.do(gate, market.Deny{ID: r.ID, Generation: f.generation(r), Message: "no"})
	}
	if after := gate.state.Reservation(r.ID); after != nil && after.State != before &&
		!(before == api.Held && after.Denied()) {
		t.Fatalf("a person made %s of %s", dump(after), dump(r))
	}
}

func (f *federation) gateReleases(t *rapid.T) {
	gate := f.gates[f.cluster()]
	f.do(gate, f.ending(t, f.some(gate)))
}

func (f *federation) gateFrees(*rapid.T) {
	gate := f.gates[f.cluster()]
	f.do(gate, market.Free{ID: f.some(gate).ID, Provider: gate.state.Self})
}

// note tells a consumer's agent what the broker says, sometimes late.
func (f *federation) note(t *rapid.T) {
	r := *f.some(f.broker)
	r.Fence = api.Fence{Lineage: "l", Revision: r.Revision}
	if f.rarely("late") {
		r.State, r.Fence.Revision = api.Held, max(1, r.Revision/2)
	}
	f.do(f.gates[f.party(r.Consumer)], market.Note{Reservation: &r})
}

func (f *federation) members(t *rapid.T) {
	c := f.cluster()
	switch rapid.IntRange(0, 5).Draw(t, "step") {
	case 0, 1, 2:
		f.do(f.broker, market.SetMember{Cluster: c, State: rapid.SampledFrom([]api.MemberState{
			api.MemberPending, api.MemberActive, api.MemberActive, api.MemberSuspended, api.MemberRevoked, api.MemberRemoved}).Draw(t, "state")})
	case 3:
		f.do(f.broker, market.PutCard{Card: api.Card{Cluster: c, Key: "k-" + f.cluster(),
			Number: rapid.Int64Range(1, 3).Draw(t, "number")}, Signed: f.next("card")})
	case 4:
		f.do(f.gates[c], market.Pin{Cluster: f.cluster(), Key: "k-" + f.cluster()})
	default: // it comes back
		token := f.next("again-")
		f.do(f.broker, market.CreateToken{Token: market.Token{ID: token,
			Hash: "h", Cluster: rapid.SampledFrom([]string{"", c}).Draw(t, "named"), Expires: f.now + 1000}})
		f.do(f.broker, market.Join{TokenID: token, Hash: "h", Cluster: c, Key: "k-" + f.party(c), TLSKey: "x"})
		f.do(f.broker, market.SetMember{Cluster: c, State: api.MemberActive})
	}
}

func (f *federation) conditional(t *rapid.T) {
	r := f.some(f.broker)
	f.do(f.broker, market.IfRevision{ID: r.ID, Revision: r.Revision + uint64(rapid.IntRange(0, 1).Draw(t, "off")),
		Command: f.ending(t, r)})
}

func (f *federation) advertiseAny(t *rapid.T) {
	f.advertise(rapid.SampledFrom(providers).Draw(t, "provider"))
}

// step does what would come next for a reservation if all went well, at the broker and at the gate.
func (f *federation) step(*rapid.T) {
	r := f.some(f.broker)
	gate := f.gates[r.Provider]
	switch a := market.AssignmentOf(r, "ck", "pk"); {
	case r.Changing() != nil:
		a = changed(a, r)
		if _, err := f.do(gate, market.Admit{Assignment: a, Size: r.Change.Size,
			Document: r.Change.Assignment, Acceptance: "yes", Offer: f.offerOf(r)}); err != nil {
			f.do(f.broker, market.Refuse{ID: r.ID, By: r.Provider, Generation: a.Generation, Reason: api.ReasonInsufficient})
		} else if _, err := f.do(f.broker, market.Accept{ID: r.ID,
			Provider: r.Provider, Generation: a.Generation, Document: documentOf(a)}); err != nil {
			f.t.Fatalf("%s changes, and is not accepted: %v", dump(r), err)
		}
		f.do(gate, market.Commit{ID: r.ID, Generation: a.Generation})
	case r.State == api.Held && r.Assignment == "":
		f.do(f.broker, market.Confirm{ID: r.ID, Consumer: r.Consumer, Generation: r.Generation, Document: documentOf(a)})
	case r.State == api.Held:
		admit := market.Admit{Assignment: a, Size: r.Size, Document: r.Assignment,
			Acceptance: "yes", BindsUntil: r.HeldUntil + 30_000, Offer: f.offerOf(r)}
		if r.ApproveBy != 0 { // the gate asks a person first
			admit.Acceptance, admit.ApproveBy = "", r.ApproveBy
		}
		if out, err := f.do(gate, admit); err != nil {
			f.do(f.broker, market.Refuse{ID: r.ID, By: r.Provider, Generation: r.Generation, Reason: api.ReasonInsufficient})
		} else if out.Reservation.Acceptance != "" {
			f.do(f.broker, market.Accept{ID: r.ID, Provider: r.Provider, Generation: r.Generation, Document: "yes"})
		}
	case r.State == api.Reserved:
		f.do(gate, market.Commit{ID: r.ID, Generation: r.Generation})
		f.do(f.broker, market.Activate{ID: r.ID, Consumer: r.Consumer})
	case r.State == api.Active:
		f.do(f.broker, market.Release{ID: r.ID, By: r.Consumer, Generation: r.Generation, Document: "end"})
		f.do(gate, market.Release{ID: r.ID, By: r.Consumer, Generation: r.Generation, Document: "end"})
	case r.State == api.Releasing:
		f.do(gate, market.Free{ID: r.ID, Provider: r.Provider})
		f.do(f.broker, market.Free{ID: r.ID, Provider: r.Provider})
	}
}

func (f *federation) restartAny(t *rapid.T) {
	f.restart(rapid.SampledFrom([]*node{f.broker, f.gates["rome"], f.gates["paris"]}).Draw(t, "market"))
}

// restart crashes a market, now or as if a backup had been put back, sometimes after a snapshot.
// Agents advertise to it again.
func (f *federation) restart(n *node) {
	if rapid.Bool().Draw(f.t, "fold") {
		n.fold()
	}
	lost := 0
	if f.rarely("backup") {
		f.torn = true
		lost = rapid.IntRange(0, len(n.journal)-n.folded).Draw(f.t, "lost")
	}
	n.restart(len(n.journal) - lost)
	delete(f.lives, n)
	f.remember(n)
	for _, p := range providers {
		f.advertise(p)
	}
}
