package market_test

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

func TestBothSidesBind(t *testing.T) {
	d := newTestBroker(t)
	d.held("r", 5)
	if seen := d.state.Of("rome", 0); len(seen) > 0 {
		t.Errorf("rome sees what is not signed: %s", dump(seen))
	}
	d.now += 50_000
	d.must(market.Confirm{ID: "r", Consumer: "paris", Generation: 1, Document: "assignment"})
	if r := d.state.Reservation("r"); r.HeldUntil != d.now+60_000 || len(d.state.Of("rome", 0)) != 1 {
		t.Errorf("signed as %s", dump(r))
	}
	d.must(market.Accept{ID: "r", Provider: "rome", Generation: 1, Document: "acceptance"})
	d.want("r", api.Reserved, "", "rome", 3000)
	if r := d.state.Reservation("r"); r.Assignment != "assignment" ||
		r.Acceptance != "acceptance" || r.Next != nil || r.HeldUntil != 0 {
		t.Errorf("bound as %s", dump(r))
	}
}

func TestConfirmErrors(t *testing.T) {
	d := newTestBroker(t)
	d.held("held", 1)
	d.signed("signed", 1)
	d.reserved("bound", 1)
	for _, c := range []struct {
		command market.Confirm
		want    api.Code
	}{
		{market.Confirm{ID: "none", Consumer: "paris", Generation: 1, Document: "x"}, api.CodeNotFound},
		{market.Confirm{ID: "held", Consumer: "milan", Generation: 1, Document: "x"}, api.CodeNotFound},
		// its provider must not know yet
		{market.Confirm{ID: "held", Consumer: "rome", Generation: 1, Document: "x"}, api.CodeNotFound},
		{market.Confirm{ID: "held", Consumer: "", Generation: 1, Document: "x"}, api.CodeNotFound},
		{market.Confirm{ID: "held", Consumer: "paris", Generation: 2, Document: "x"}, api.CodeConflict},
		{market.Confirm{ID: "signed", Consumer: "rome", Generation: 1, Document: "x"}, api.CodeForbidden},
		{market.Confirm{ID: "signed", Consumer: "paris", Generation: 1, Document: "another"}, api.CodeConflict},
		{market.Confirm{ID: "bound", Consumer: "paris", Generation: 1, Document: "another"}, api.CodeConflict},
	} {
		d.fails(c.want, c.command)
	}
	// A retry is no error, even after the next step.
	d.must(market.Confirm{ID: "bound", Consumer: "paris", Generation: 1, Document: "assignment"})
}

func TestAcceptErrors(t *testing.T) {
	d := newTestBroker(t)
	d.held("held", 1)
	d.signed("signed", 1)
	d.reserved("bound", 1)
	d.signed("cancelled", 1)
	d.must(market.Release{ID: "cancelled", By: "paris", Generation: 1, Document: "end"})
	for _, c := range []struct {
		command market.Accept
		want    api.Code
	}{
		{market.Accept{ID: "none", Provider: "rome", Generation: 1, Document: "x"}, api.CodeNotFound},
		{market.Accept{ID: "held", Provider: "rome", Generation: 1, Document: "x"}, api.CodeNotFound},
		{market.Accept{ID: "signed", Provider: "milan", Generation: 1, Document: "x"}, api.CodeNotFound},
		{market.Accept{ID: "signed", Provider: "paris", Generation: 1, Document: "x"}, api.CodeConflict},
		{market.Accept{ID: "signed", Provider: "rome", Generation: 2, Document: "x"}, api.CodeConflict},
		{market.Accept{ID: "bound", Provider: "rome", Generation: 1, Document: "another"}, api.CodeConflict},
		{market.Accept{ID: "cancelled", Provider: "rome", Generation: 1, Document: "x"}, api.CodeConflict},
	} {
		d.fails(c.want, c.command)
	}
	d.must(market.Accept{ID: "bound", Provider: "rome", Generation: 1, Document: "acceptance"})
}

func TestRefuseErrors(t *testing.T) {
	d := newTestBroker(t)
	d.held("held", 1)
	d.signed("signed", 1)
	d.reserved("bound", 1)
	for _, c := range []struct {
		command market.Refuse
		want    api.Code
	}{
		{market.Refuse{ID: "none", By: "rome", Generation: 1}, api.CodeNotFound},
		{market.Refuse{ID: "held", By: "rome", Generation: 1}, api.CodeNotFound}, // nobody asked it
		{market.Refuse{ID: "signed", By: d.state.Reservation("signed").Consumer, Generation: 1}, api.CodeConflict},
		{market.Refuse{ID: "signed", By: "milan", Generation: 1}, api.CodeNotFound},
		{market.Refuse{ID: "signed", By: "paris", Generation: 1}, api.CodeConflict},
		{market.Refuse{ID: "signed", By: "rome", Generation: 0}, api.CodeConflict},
		{market.Refuse{ID: "bound", By: "rome", Generation: 1}, api.CodeConflict},
	} {
		d.fails(c.want, c.command)
	}
}

func TestIfRevision(t *testing.T) {
	d := newTestBroker(t)
	r := d.held("r", 1)
	release := market.Release{ID: "r", By: "paris", Generation: 1}
	d.fails(api.CodePrecondition, market.IfRevision{ID: "r", Revision: r.Revision - 1, Command: release})
	d.fails(api.CodeNotFound, market.IfRevision{ID: "none", Revision: 1,
		Command: market.Free{ID: "none", Provider: "rome"}})
	d.must(market.IfRevision{ID: "r", Revision: r.Revision, Command: release})
	d.want("r", api.Failed, api.ReasonCancelled, "rome", 8000)
}
