package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// elsewhere is what rome and milan signed of two units of an offer without this broker, with a
// change of theirs.
func elsewhere(rome, milan *servertest.Member, id, offer string,
	change func(*api.Assignment, *api.Acceptance)) api.Agreement {
	d := transporttest.NewDeal(rome.Party, milan.Party, id, "2", time.Now()).From(offer, "small", 2)
	a := rome.Assignment(*d.Shown())
	yes := milan.Acceptance(client.Reservation{ID: id, Payload: api.Reservation{Generation: 1, Consumer: "rome"}})
	change(&a, &yes)
	assignment := rome.Sign(api.DocumentAssignment, a)
	if yes.Assignment == clusterkey.Digest("").String() {
		yes.Assignment = clusterkey.Digest(assignment).String()
	}
	return api.Agreement{Assignment: assignment, Acceptance: milan.Sign(api.DocumentAcceptance, yes), Offer: offer}
}

func asSigned(*api.Assignment, *api.Acceptance) {}

// What two members signed without this broker counts here, and against the plan, once it is told by either.
func TestAdoptsAContract(t *testing.T) {
	ctx := context.Background()
	f := servertest.Start(t, servertest.Options{})
	rome, milan, oslo := f.Join("rome"), f.Join("milan"), f.Join("oslo")
	milan.Advertise("10")
	offer := milan.SignOffer("web", 1, transporttest.WebOffer("0.10"))
	if err := milan.PublishOffer(ctx, "milan", "web", offer); err != nil {
		t.Fatal(err)
	}
	agreed := elsewhere(rome, milan, "r-elsewhere", offer, asSigned)
	if _, err := oslo.Adopt(ctx, "r-elsewhere", agreed); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("told by a third: %v", err)
	}
	for _, who := range []*servertest.Member{milan, rome, milan} {
		r, err := who.Adopt(ctx, "r-elsewhere", agreed)
		if err != nil || r.Payload.State != api.Reserved || r.Payload.Sale == nil || r.Payload.Offer != offer {
			t.Fatalf("%s: %+v, %v", who.ID, r.Payload, err)
		}
	}
	if left := must(rome.Offer(ctx, "milan", "web"))(t).Payload.Plans["small"].Remaining; left != 6 {
		t.Errorf("%d are left of 8", left)
	}
}

func TestHostileAgreements(t *testing.T) {
	w := newFixture(t)
	offer := w.milan.SignOffer("web", 1, transporttest.WebOffer("0.10"))
	agree := func(name string, want api.Code, field string, change func(*api.Assignment, *api.Acceptance)) call {
		return call{name: name, by: w.rome.HTTP, method: "POST", path: "/reservations/r-new/adopt",
			body: wrote(elsewhere(w.rome, w.milan, "r-new", offer, change)), want: want, field: field}
	}
	altered := func(name string, want api.Code, field string, change func(*api.Agreement)) call {
		agreed := elsewhere(w.rome, w.milan, "r-new", offer, asSigned)
		change(&agreed)
		return call{name: name, by: w.rome.HTTP, method: "POST", path: "/reservations/r-new/adopt",
			body: wrote(agreed), want: want, field: field}
	}
	w.refused(t, []call{
		agree("of another reservation", api.CodeNotFound, "",
			func(a *api.Assignment, _ *api.Acceptance) { a.Reservation = "r-other" }),
		agree("of others", api.CodeNotFound, "", func(a *api.Assignment,
			_ *api.Acceptance) {
			a.Consumer, a.Provider = "oslo", "lima"
		}),
		agree("with oneself", api.CodeNotFound, "", func(a *api.Assignment, _ *api.Acceptance) { a.Provider = "rome" }),
		agree("accepted for another generation", api.CodeInvalid, "acceptance",
			func(_ *api.Assignment, yes *api.Acceptance) { yes.Generation = 2 }),
		agree("accepted for another assignment", api.CodeInvalid, "acceptance",
			func(_ *api.Assignment, yes *api.Acceptance) { yes.Assignment = "SHA256:AAAA" }),
		agree("over", api.CodeConflict, "", func(a *api.Assignment, _ *api.Acceptance) {
			a.Until = transporttest.Seconds(time.Now().Add(-time.Hour))
		}),
		agree("for longer than anything is lent", api.CodeInvalid,
			"assignment.until", func(a *api.Assignment, _ *api.Acceptance) {
				a.Until = transporttest.Seconds(time.Now().Add(99_999 * time.Hour))
			}),
		agree("to be accepted later than anybody decides", api.CodeInvalid,
			"assignment.expires", func(a *api.Assignment, _ *api.Acceptance) {
				a.Expires = transporttest.Seconds(time.Now().Add(99 * time.Hour))
			}),
		agree("of no generation", api.CodeInvalid, "assignment.generation",
			func(a *api.Assignment, yes *api.Acceptance) { a.Generation, yes.Generation = -1, -1 }),
		agree("of another protocol", api.CodeInvalid, "assignment.protocol",
			func(a *api.Assignment, _ *api.Acceptance) { a.Protocol = 99 }),
		agree("in a pool that is no name", api.CodeInvalid, "assignment.pool", func(a *api.Assignment, _ *api.Acceptance) {
			a.Sale, a.Pool = nil, "\x1b[2J"
			a.Slice = market.SliceName(a.Consumer, a.Provider, a.Pool)
		}),
		agree("in another slice", api.CodeInvalid, "assignment.slice",
			func(a *api.Assignment, _ *api.Acceptance) { a.Slice = "b-general-other" }),
		agree("of a negative amount", api.CodeInvalid, "assignment.resources.cpu",
			func(a *api.Assignment, _ *api.Acceptance) { a.Resources = transporttest.CPU("-1") }),
		altered("signed by the other", api.CodeBadSignature, "acceptance",
			func(c *api.Agreement) { c.Acceptance = c.Assignment }),
		altered("from no offer", api.CodeBadSignature, "offer", func(c *api.Agreement) { c.Offer = "" }),
	})
}

// A provider that was away shows the broker what it still has. It hears that this is over, and
// reads the end that its consumer signed.
func TestAProviderHearsOfAnEndLate(t *testing.T) {
	ctx := t.Context()
	f := servertest.Start(t, servertest.Options{})
	rome, milan := f.Join("rome"), f.Join("milan")
	milan.Advertise("8")
	r, err := rome.Reserve(ctx, "key", transporttest.Request("2"))
	if err == nil {
		r, err = rome.Confirm(ctx, r.ID, rome.Assign(r))
	}
	if err == nil {
		r, err = milan.Accept(ctx, r.ID, milan.Agree(r))
	}
	if err != nil {
		t.Fatal(err)
	}
	end := rome.End(r, api.ReasonReleased)
	if _, err = rome.Release(ctx, r.ID, end); err == nil {
		_, err = milan.Progress(ctx, r.ID, api.Released)
	}
	if err != nil {
		t.Fatal(err)
	}
	again, err := milan.Adopt(ctx, r.ID, api.Agreement{Assignment: r.Payload.Assignment, Acceptance: r.Payload.Acceptance})
	if err != nil || again.Payload.State != api.Released || again.Payload.End != end {
		t.Errorf("it is %s with the end %q, %v", again.Payload.State, again.Payload.End, err)
	}
}
