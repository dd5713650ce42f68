package server_test

import (
	"context"
	"slices"
	"testing"

	"github.com/bourse-dev/bourse/api"
)

func (w *fixture) set(t *testing.T, cluster, step string) {
	t.Helper()
	if _, err := w.Operator.SetMember(context.Background(), cluster, step); err != nil {
		t.Fatal(err)
	}
}

// Who has a reservation with a cluster is told how far it is a member: at first, when that changes,
// and what was missed; though the cluster shows itself to nobody. Who has none is told nothing, and
// nobody is told anything twice.
func TestStandings(t *testing.T) {
	w := newFixture(t)
	if _, err := w.milan.Cluster(context.Background(), "rome"); api.CodeOf(err) != api.CodeNotFound {
		t.Fatalf("rome is not hidden: %v", err)
	}
	rome := func(states ...api.MemberState) (said []api.Membership) {
		for _, s := range states {
			said = append(said, api.Membership{Cluster: "rome", State: s})
		}
		return said
	}
	steps := []func(){
		func() { w.rome.ShowCard(api.Properties{Region: "us"}); w.set(t, "rome", "suspend") }, // a new card is no news
		func() { w.set(t, "rome", "resume") },
		nil,
	}
	live := watch(t, w.milan.Client, "", func(got watched) bool {
		if len(got.standing) > 3-len(steps) {
			if next := steps[0]; next != nil {
				next()
			}
			steps = steps[1:]
		}
		return len(steps) == 0
	})
	if want := rome(api.MemberActive, api.MemberSuspended, api.MemberActive); !slices.Equal(live.standing, want) {
		t.Errorf("while it watched, milan was told %v, want %v", live.standing, want)
	}
	w.set(t, "rome", "revoke") // while nobody watches
	missed := watch(t, w.milan.Client, live.token, snapshot)
	if want := rome(api.MemberRevoked); missed.complete || missed.told != 0 || !slices.Equal(missed.standing, want) {
		t.Errorf("resumed, milan was told %+v, want %v", missed, want)
	}
	w.set(t, "rome", "remove")
	if got, want := watch(t, w.milan.Client, "", snapshot).standing, rome(api.MemberRemoved); !slices.Equal(got, want) {
		t.Errorf("of who is removed milan was told %v, want %v", got, want)
	}
	if got := watch(t, w.oslo.Client, "", snapshot).standing; len(got) > 0 {
		t.Errorf("a neighbour is told %v", got)
	}
}

// The provider of a hold that nobody signed learns nothing of its consumer, nor the consumer of it.
func TestStandingsBeforeASignature(t *testing.T) {
	w := newFixture(t)
	w.oslo.Advertise("200")
	held, err := w.rome.Reserve(context.Background(), "at-oslo",
		api.Request{Resources: w.unsigned.Payload.Resources, Target: "oslo"})
	if err != nil || held.Payload.Provider != "oslo" {
		t.Fatalf("%+v, %v", held.Payload, err)
	}
	if got := watch(t, w.oslo.Client, "", snapshot).standing; len(got) > 0 {
		t.Errorf("the provider is told %v", got)
	}
	if got, want := watch(t, w.rome.Client, "", snapshot).standing, []api.Membership{{Cluster: "milan",
		State: api.MemberActive}}; !slices.Equal(got, want) {
		t.Errorf("the consumer is told %v, want %v", got, want)
	}
	w.confirm(t, held)
	if got, want := watch(t, w.oslo.Client, "", snapshot).standing, []api.Membership{{Cluster: "rome",
		State: api.MemberActive}}; !slices.Equal(got, want) {
		t.Errorf("the provider of what is signed is told %v, want %v", got, want)
	}
}
