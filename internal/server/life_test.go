package server_test

import (
	"context"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A reservation from request to the capacity that is back, as its two parties drive it.
func TestLife(t *testing.T) {
	ctx := context.Background()
	f := servertest.Start(t, servertest.Options{})
	rome, milan := f.Join("rome"), f.Join("milan")
	milan.Advertise("8")
	r, err := rome.Reserve(ctx, "key", transporttest.Request("3"))
	if err != nil || r.Payload.State != api.Held || r.Payload.Provider != "milan" {
		t.Fatalf("%+v, %v", r.Payload, err)
	}
	if _, err := milan.Reservation(ctx, r.ID); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("the provider of an unsigned hold sees it: %v", err)
	}
	if r, err = rome.Confirm(ctx, r.ID, rome.Assign(r)); err != nil {
		t.Fatal(err)
	}
	theirs, err := milan.Reservation(ctx, r.ID)
	if err != nil || theirs.Payload.Request != nil || theirs.Payload.Decision != nil {
		t.Fatalf("the provider sees %+v, %v", theirs.Payload, err)
	}
	if theirs, err = milan.Accept(ctx, r.ID, milan.Agree(theirs)); err != nil || theirs.Payload.State != api.Reserved {
		t.Fatalf("%+v, %v", theirs.Payload, err)
	}
	if r, err = rome.Progress(ctx, r.ID, api.Active); err != nil || r.Payload.State != api.Active {
		t.Fatalf("%+v, %v", r.Payload, err)
	}
	if r, err = rome.Release(ctx, r.ID, rome.End(r, api.ReasonReleased)); err != nil || r.Payload.State != api.Releasing {
		t.Fatalf("%+v, %v", r.Payload, err)
	}
	if left := available(t, rome, "milan"); left != "5" {
		t.Errorf("%s of 8 are available before the provider freed 3", left)
	}
	if r, err = milan.Progress(ctx, r.ID, api.Released); err != nil || r.Payload.State != api.Released {
		t.Fatalf("%+v, %v", r.Payload, err)
	}
	if left := available(t, rome, "milan"); left != "8" {
		t.Errorf("%s of 8 are available after the end", left)
	}
}

// available is how many CPUs of a cluster a member sees as available.
func available(t *testing.T, m *servertest.Member, cluster string) string {
	t.Helper()
	c, err := m.Cluster(context.Background(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	cpu := c.Payload.Pools[api.GeneralPool].Available["cpu"]
	return cpu.String()
}
