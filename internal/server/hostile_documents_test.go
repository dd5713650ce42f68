package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A signed document counts for what it says, once, and only from whom it concerns.
func TestHostileDocuments(t *testing.T) {
	w := newFixture(t)
	confirm := func(name, signed string, want api.Code, field string) call {
		return call{name: "confirm: " + name, by: w.rome.HTTP, method: "POST",
			path: "/reservations/" + w.unsigned.ID + "/confirm", body: document(signed), want: want, field: field}
	}
	assign := func(name, field string, change func(*api.Assignment)) call {
		a := w.rome.Assignment(w.unsigned)
		change(&a)
		want := api.CodeInvalid
		if field == "document.generation" {
			want = api.CodeConflict
		}
		return confirm(name, w.rome.Sign(api.DocumentAssignment, a), want, field)
	}
	change := func(name string, want api.Code, field string, change func(*api.Assignment)) call {
		a := w.rome.Assignment(w.bound)
		a.Generation = 2
		change(&a)
		return call{name: "change: " + name, by: w.rome.HTTP, method: "POST", path: "/reservations/" +
			w.bound.ID + "/confirm", body: document(w.rome.Sign(api.DocumentAssignment, a)), want: want, field: field}
	}
	accept := func(name string, want api.Code, by *servertest.Member, kind string, change func(*api.Acceptance)) call {
		a := w.milan.Acceptance(w.signed)
		change(&a)
		return call{name: "accept: " + name, by: w.milan.HTTP, method: "POST",
			path: "/reservations/" + w.signed.ID + "/accept", body: document(by.Sign(kind, a)), want: want, field: "document"}
	}
	end := func(name, signed string, want api.Code, field string) call {
		return call{name: "end: " + name, by: w.rome.HTTP, method: "POST",
			path: "/reservations/" + w.bound.ID + "/release", body: document(signed), want: want, field: field}
	}
	card := func(name, signed string, want api.Code, field string) call {
		return call{name: "card: " + name, by: w.rome.HTTP, method: "PUT",
			path: "/clusters/rome/card", body: document(signed), want: want, field: field}
	}
	good := w.rome.Assign(w.unsigned)
	late := w.rome.Assignment(w.signed) // of before the first assignment arrived, which moved the deadline
	late.Issued, late.Expires = metav1.NewTime(late.Issued.Add(time.Second)), metav1.NewTime(late.Expires.Add(-time.Second))
	second := w.rome.Sign(api.DocumentAssignment, late)
	w.refused(t, []call{
		confirm("nothing", "", api.CodeBadSignature, "document"),
		confirm("not a document", "x", api.CodeBadSignature, "document"),
		confirm("too large for one", strings.Repeat("x", 70_000), api.CodeTooLarge, ""),
		confirm("one byte is another", good[:len(good)-9]+"AAAAAAAAA", api.CodeBadSignature, "document"),
		confirm("with a line break", good[:40]+"\n"+good[40:], api.CodeBadSignature, "document"),
		confirm("of another kind", w.rome.Sign(api.DocumentEnd, w.rome.Assignment(w.unsigned)),
			api.CodeBadSignature, "document"),
		confirm("signed by another member", w.oslo.Sign(api.DocumentAssignment, w.rome.Assignment(w.unsigned)),
			api.CodeBadSignature, "document"),
		confirm("signed by the provider", w.milan.Sign(api.DocumentAssignment, w.rome.Assignment(w.unsigned)),
			api.CodeBadSignature, "document"),
		confirm("replayed from another reservation", w.rome.Assign(w.signed), api.CodeInvalid, "document.reservation"),
		assign("another generation", "document.generation", func(a *api.Assignment) { a.Generation++ }),
		assign("another provider", "document.provider", func(a *api.Assignment) { a.Provider = "oslo" }),
		assign("another key of the provider", "document.providerKey",
			func(a *api.Assignment) { a.ProviderKey = a.ConsumerKey }),
		assign("for another consumer", "document.consumer", func(a *api.Assignment) { a.Consumer = "oslo" }),
		assign("more than is held", "document.resources", func(a *api.Assignment) { a.Resources = transporttest.CPU("2") }),
		assign("a negative amount", "document.resources", func(a *api.Assignment) { a.Resources = transporttest.CPU("-1") }),
		assign("for longer than is held", "document.until",
			func(a *api.Assignment) { a.Until = metav1.NewTime(a.Until.Add(time.Hour)) }),
		assign("to be used for longer", "document.expires",
			func(a *api.Assignment) { a.Expires = metav1.NewTime(a.Expires.Add(time.Hour)) }),
		assign("in another pool", "document.pool", func(a *api.Assignment) { a.Pool = "gpu" }),
		assign("in another slice", "document.slice", func(a *api.Assignment) { a.Slice = "b-general-other" }),
		assign("of another protocol", "document.protocol", func(a *api.Assignment) { a.Protocol = 99 }),
		{name: "confirm: a second assignment for what is signed", by: w.rome.HTTP, method: "POST", path: "/reservations/" +
			w.signed.ID +
			"/confirm", body: document(w.rome.Assign(w.unsigned)), want: api.CodeInvalid, field: "document.reservation"},
		{name: "confirm: a second assignment, signed at the same time", by: w.rome.HTTP, method: "POST", path: "/reservations/" +
			w.signed.ID + "/confirm", body: document(second), want: api.CodeConflict, field: "document"},
		{name: "confirm: what is bound already", by: w.rome.HTTP, method: "POST",
			path: "/reservations/" + w.bound.ID + "/confirm", body: document(w.rome.Assign(w.bound)), want: api.CodeConflict},
		change("of the same generation", api.CodeConflict, "", func(a *api.Assignment) { a.Generation = 1 }),
		change("more than there is", api.CodeInsufficient, "",
			func(a *api.Assignment) { a.Resources = transporttest.CPU("900") }),
		change("nothing", api.CodeInvalid, "document.resources",
			func(a *api.Assignment) { a.Resources = transporttest.CPU("0") }),
		change("a negative amount", api.CodeInvalid, "document.resources.cpu",
			func(a *api.Assignment) { a.Resources = transporttest.CPU("-1") }),
		change("an absurd amount", api.CodeInvalid, "document.resources.cpu",
			func(a *api.Assignment) { a.Resources = transporttest.CPU("1e17") }),
		change("for a time that is over", api.CodeInvalid, "until",
			func(a *api.Assignment) { a.Until = metav1.NewTime(a.Until.Add(-9999 * time.Hour)) }),
		change("for longer than anything is lent", api.CodeInvalid,
			"document.until", func(a *api.Assignment) { a.Until = metav1.NewTime(a.Until.Add(9999 * time.Hour)) }),
		change("on another provider", api.CodeInvalid, "document.provider", func(a *api.Assignment) { a.Provider = "oslo" }),
		change("in another pool", api.CodeInvalid, "document.pool", func(a *api.Assignment) { a.Pool = "gpu" }),
		change("of another reservation", api.CodeInvalid, "document.reservation",
			func(a *api.Assignment) { a.Reservation = w.signed.ID }),

		accept("of another reservation", api.CodeConflict, w.milan,
			api.DocumentAcceptance, func(a *api.Acceptance) { a.Reservation = w.unsigned.ID }),
		accept("of another assignment", api.CodeConflict, w.milan,
			api.DocumentAcceptance, func(a *api.Acceptance) { a.Assignment = w.milan.Acceptance(w.bound).Assignment }),
		accept("of another generation", api.CodeConflict, w.milan,
			api.DocumentAcceptance, func(a *api.Acceptance) { a.Generation++ }),
		accept("for another consumer", api.CodeConflict, w.milan, api.DocumentAcceptance,
			func(a *api.Acceptance) { a.Consumer = "oslo" }),
		accept("in another's name", api.CodeConflict, w.milan, api.DocumentAcceptance,
			func(a *api.Acceptance) { a.Provider = "oslo" }),
		accept("signed by the consumer", api.CodeBadSignature, w.rome, api.DocumentAcceptance, func(*api.Acceptance) {}),
		accept("of another kind", api.CodeBadSignature, w.milan, api.DocumentAssignment, func(*api.Acceptance) {}),
		{name: "accept: what nobody signed", by: w.milan.HTTP, method: "POST",
			path: "/reservations/" + w.unsigned.ID +
				"/accept", body: document(w.milan.Agree(w.unsigned)), want: api.CodeNotFound},

		end("signed by a third", w.oslo.End(w.bound, api.ReasonReleased), api.CodeBadSignature, "document"),
		end("signed by the other party", w.milan.End(w.bound, api.ReasonRevokedByProvider), api.CodeBadSignature, "document"),
		end("of another reservation", w.rome.End(w.signed, api.ReasonReleased), api.CodeInvalid, "document"),
		end("in another's name", w.rome.Sign(api.DocumentEnd, api.End{Protocol: 1,
			Reservation: w.bound.ID, Generation: 1, By: "milan", Reason: api.ReasonReleased}), api.CodeInvalid, "document"),
		end("for a reason of one's own", w.rome.End(w.bound, "Because\x1b[2J"), api.CodeInvalid, "document.reason"),
		end("of an older generation", w.rome.Sign(api.DocumentEnd, api.End{Protocol: 1, Reservation: w.bound.ID,
			Assignment: clusterkey.Digest(w.bound.Payload.Assignment).String(), By: "rome", Reason: api.ReasonReleased}), api.CodeConflict, ""),
		end("of another assignment", w.rome.Sign(api.DocumentEnd, api.End{Protocol: 1, Reservation: w.bound.ID,
			Assignment: clusterkey.Digest("another").String(), Generation: 9, By: "rome", Reason: api.ReasonReleased}), api.CodeConflict, "document.assignment"),
		end("of no assignment", w.rome.Sign(api.DocumentEnd, api.End{Protocol: api.Protocol, Reservation: w.bound.ID,
			Generation: 9, By: "rome", Reason: api.ReasonReleased}), api.CodeConflict, "document.assignment"),

		card("signed by another", w.oslo.Sign(api.DocumentCard,
			api.Card{Cluster: "rome", Key: w.rome.Key.Public().String(), Number: 1 << 52}), api.CodeBadSignature, "document"),
		card("of another cluster", w.rome.Sign(api.DocumentCard,
			api.Card{Cluster: "oslo", Key: w.rome.Key.Public().String(), Number: 1 << 52}), api.CodeInvalid, "document.cluster"),
		card("with another key", w.rome.Sign(api.DocumentCard,
			api.Card{Cluster: "rome", Key: w.oslo.Key.Public().String(), Number: 1 << 52}), api.CodeKeyChanged, ""),
		card("that is older", w.rome.Sign(api.DocumentCard,
			api.Card{Cluster: "rome", Key: w.rome.Key.Public().String(), Number: 1}), api.CodeConflict, ""),
		card("with an escape", w.rome.Card(api.Properties{Region: "eu\x1b[2J"}), api.CodeInvalid, "document.properties.region"),
		card("with a NUL", w.rome.Card(api.Properties{Labels: map[string]string{"a": "\x00"}}),
			api.CodeInvalid, "document.properties.labels"),
		card("with many labels", w.rome.Card(api.Properties{Labels: crowd(100)}), api.CodeInvalid, "document.properties.labels"),
	})
}

func crowd(n int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[strings.Repeat("x", i+1)] = "y"
	}
	return out
}

// An acceptance is of one assignment: it is worth nothing once the reservation has ended.
func TestAnAcceptanceIsNotUsedTwice(t *testing.T) {
	ctx := context.Background()
	w := newFixture(t)
	yes := w.milan.Agree(w.signed)
	if _, err := w.rome.Release(ctx, w.signed.ID, w.rome.End(w.signed, api.ReasonReleased)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.milan.Accept(ctx, w.signed.ID, yes); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("accepted after its end: %v", err)
	}
	if _, err := w.milan.Progress(ctx, w.signed.ID, api.Released); err != nil {
		t.Fatal(err)
	}
	r, err := w.milan.Accept(ctx, w.signed.ID, yes)
	if api.CodeOf(err) != api.CodeConflict {
		t.Errorf("accepted after it was freed: %s, %v", r.Payload.State, err)
	}
}
