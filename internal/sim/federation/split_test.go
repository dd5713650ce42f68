package federation_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/federation"
)

// A request that is too much for any one is on three, or on none: on three while all accept; on
// none where one says no after the others have said yes; and what was given is free again.
func TestSplit(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	f := &fair{t: t, rome: &federation.Member{Options: sim.Options{Name: "rome", Region: "eu", Nodes: 1}}}
	members := []*federation.Member{f.rome}
	for _, name := range []string{"milan", "paris", "turin"} {
		members = append(members, &federation.Member{Options: sim.Options{Name: name,
			Region: "eu", Nodes: 2, CPU: 8, Memory: 32},
			Sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}})
	}
	var err error
	if f.Federation, err = federation.Start(ctx, t.TempDir(), slog.New(slog.DiscardHandler), members...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = f.Stop() })
	one := api.Request{Resources: api.Resources{"cpu": resource.MustParse("10")}}
	three := api.Request{Resources: api.Resources{"cpu": resource.MustParse("40"),
		"memory": resource.MustParse("9Gi")}, Split: 3}
	all := func() bool {
		e, err := f.rome.People.Evaluate(t.Context(), one)
		return err == nil && e.Decision.Candidates == 3
	}
	f.until("three have room", all)
	if e := must(f.rome.People.Evaluate(t.Context(), three))(t); e.Decision.Parts != 3 || e.Decision.Candidates != 3 {
		t.Errorf("%+v", e.Decision)
	}
	two := three
	two.Split = 2
	f.makes(f.rome, "too-few", two, api.Rejected)

	got := f.makes(f.rome, "split", three, api.Reserved)
	status := must(f.rome.People.Request(t.Context(), "default", "split"))(t).Payload.Status
	if len(strings.Split(status.Provider, ",")) != 3 || len(got.Payload.Group) != 3 || got.Payload.Group[0] != got.ID {
		t.Errorf("%+v: %+v", status, got.Payload)
	}
	if len(status.Parts) != 3 || status.Began == nil {
		t.Errorf("the object shows %+v", status)
	}
	on, sum := map[string]bool{}, resource.Quantity{}
	for i, id := range got.Payload.Group {
		part := must(f.rome.People.Reservation(t.Context(), id))(t).Payload
		if part.State != api.Reserved || part.Acceptance == "" || part.Decision == nil ||
			part.Decision.Parts != 3 || part.Decision.Chosen != part.Provider {
			t.Errorf("%+v", part)
		}
		if shown := status.Parts[i]; shown.Reservation != id || shown.Provider != part.Provider ||
			shown.Resources.Cpu().Cmp(part.Resources["cpu"]) != 0 {
			t.Errorf("the object shows %+v of %+v", shown, part)
		}
		on[part.Provider] = true
		sum.Add(part.Resources["cpu"])
		f.until(id+" is instructed", func() bool {
			return f.rome.Objects.Get(t.Context(), kube.ObjectKey{Namespace: "default", Name: id},
				&api.ReservationInstruction{}) == nil
		})
	}
	if len(on) != 3 || sum.Cmp(three.Resources["cpu"]) != 0 {
		t.Errorf("%v have %s", on, sum.String())
	}
	f.makes(f.rome, "no-room", one, api.Rejected)
	// any part stands for all
	if err := f.rome.People.ReleaseLocally(t.Context(), got.Payload.Group[1], api.Release{}); err != nil {
		t.Fatal(err)
	}
	f.until("all are free again", all)

	turin := f.Members["turin"]
	f.shares(turin, func(s *api.Sharing) { s.ApproveWithin = &metav1.Duration{Duration: time.Hour} })
	f.until("turin's card says that a person approves", func() bool {
		c, err := f.rome.People.Cluster(t.Context(), "turin")
		return err == nil && waits(t, c.Payload.Card)
	})
	if _, err := f.rome.People.MakeRequest(t.Context(), api.RequestCreate{Name: "refused", Request: three}); err != nil {
		t.Fatal(err)
	}
	denied := ""
	f.until("turin is asked, and the others have accepted", func() bool {
		waiting, err := turin.People.Approvals(t.Context())
		if err != nil || len(waiting) != 1 {
			return false
		}
		denied = waiting[0].ID
		bound := 0
		r, err := f.rome.People.Reservation(t.Context(), denied)
		if err != nil {
			return false
		}
		for _, id := range r.Payload.Group {
			if part, err := f.rome.People.Reservation(t.Context(), id); err == nil && part.Payload.State == api.Reserved {
				bound++
			}
		}
		return bound == 2
	})
	f.answers(turin, denied, api.Answer{Reason: "not on Fridays"})
	f.becomes(f.rome, "refused", func(s api.ResourceRequestStatus) bool { return s.State == api.Failed })
	f.until("nothing of it is left", all)
}
