package server_test

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// A thief who advertises the highest sequence that there can be does not lock the cluster's own agent out.
func TestAHugeIncarnationLocksNobodyOut(t *testing.T) {
	ctx := t.Context()
	f := servertest.Start(t, servertest.Options{})
	rome := f.Join("rome")
	rome.Advertise("8")
	known := api.Sequence{Incarnation: 1, Number: 1}
	huge := rome.Measurement("1")
	huge.Sequence = api.Sequence{Incarnation: 1 << 60, Number: 1}
	if err := rome.PutAdvertisement(ctx, "rome", huge); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("a whole advertisement: %v", err)
	}
	if err := rome.PatchAdvertisement(ctx, "rome",
		api.MeasurementDelta{Base: known, Sequence: huge.Sequence}); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("a delta: %v", err)
	}
	rome.Advertise("8")
	highest := rome.Measurement("1")
	highest.Sequence = api.Sequence{Incarnation: time.Now().Add(23 * time.Hour).UnixMilli(), Number: 1<<63 - 1}
	if err := rome.PutAdvertisement(ctx, "rome", highest); err != nil {
		t.Fatalf("by a clock that is 23 hours ahead: %v", err)
	}
	if _, err := f.Operator.SetMember(ctx, "rome", "remove"); err != nil {
		t.Fatal(err)
	}
	if l := f.Exchange.View().Listing("rome"); l.Measured != nil {
		t.Errorf("of a member that was removed the broker keeps %+v", l.Measured.Sequence)
	}
	again := f.Join("rome")
	if err := again.PutAdvertisement(ctx, "rome", again.Measurement("8")); err != nil {
		t.Errorf("after it joined again its agent: %v", err)
	}
}

// Nor does one who has the former cluster key, by a card of the highest number: a successor counts
// its cards from 1.
func TestAHugeCardNumberLocksNoSuccessorOut(t *testing.T) {
	ctx := t.Context()
	f := servertest.Start(t, servertest.Options{})
	rome := f.Join("rome")
	stolen := rome.Sign(api.DocumentCard, api.Card{Cluster: "rome", Key: rome.Key.Public().String(), Number: 1<<53 - 1})
	if err := rome.PutCard(ctx, "rome", stolen); err != nil {
		t.Fatal(err)
	}
	rome.Rotate()
	next := api.Card{Cluster: "rome", Key: rome.Key.Public().String(), Number: 7, Rotations: rome.Rotations}
	if err := rome.PutCard(ctx, "rome", rome.Sign(api.DocumentCard, next)); err != nil {
		t.Fatalf("the successor's first card: %v", err)
	}
	if err := rome.PutCard(ctx, "rome", stolen); api.CodeOf(err) != api.CodeBadSignature {
		t.Errorf("the former key's card again: %v", err)
	}
	next.Number, next.Properties.Region = 6, "eu"
	if err := rome.PutCard(ctx, "rome", rome.Sign(api.DocumentCard, next)); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("an older card of the successor: %v", err)
	}
}
