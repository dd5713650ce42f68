package cluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
)

// An act names the digest that the user saw, not the one that the object has by the time of the command.
func TestActsAreOnWhatWasSeen(t *testing.T) {
	const seen, now = "0123456789abcdef", "fedcba9876543210"
	config, admin := simulated(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	at := metav1.ObjectMeta{Namespace: api.Namespace, Name: "r-1"}
	waits := &api.ProviderInstruction{ObjectMeta: at}
	waits.Spec.Resources, waits.Spec.Until = api.Resources{"cpu": resource.MustParse("1")}, metav1.Now()
	peer := &api.Peer{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "rome"}}
	contract := &api.Contract{ObjectMeta: at}
	for _, o := range []kube.Object{waits, peer, contract} {
		if err := admin.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	contract.Status.Digest = now
	contract.Status.Terms = api.ContractTerms{Buyer: "rome", Seller: "milan", Offer: "web", Plan: "small", Units: 1,
		Resources: waits.Spec.Resources, Begins: waits.Spec.Until, Until: waits.Spec.Until}
	waits.Status.Approval = &api.PendingApproval{Digest: now, Asked: metav1.Now(), By: metav1.Now()}
	peer.Status.Lent = &api.LentToPeer{Reservations: 1, Digest: now}
	for _, o := range []kube.Object{waits, peer, contract} {
		if err := admin.Status().Update(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	user, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	approval := api.Envelope[api.Approval]{ID: "r-1", Payload: api.Approval{Digest: seen}}
	if err := user.Answer(ctx, approval, api.Answer{Approve: true}); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("another one is approved: %v", err)
	}
	deal := api.Envelope[api.Deal]{ID: "r-1"}
	deal.Payload.Spec.Reservation, deal.Payload.Status.Digest = "r-1", seen
	for name, act := range map[string]func(context.Context) error{
		"evict": func(ctx context.Context) error {
			_, err := user.Evict(ctx, api.Audit{Cluster: "rome", Digest: seen})
			return err
		},
		"reclaim": func(ctx context.Context) error { _, err := user.Reclaim(ctx, deal); return err },
	} {
		short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
		if err := act(short); api.CodeOf(err) != api.CodeUnavailable {
			t.Errorf("nobody answers %s, and it says %v", name, err)
		}
		stop()
	}
	for name, o := range map[string]kube.Object{"approve": waits, "evict": peer, "reclaim": contract} {
		if err := admin.Get(ctx, kube.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		if value := o.GetAnnotations()["bourse.dev/"+name]; strings.HasPrefix(value, seen) == (name == "approve") {
			t.Errorf("%s is ordered for %q", name, value)
		}
	}
	if got, err := user.Evict(ctx, api.Audit{Cluster: "rome"}); err != nil || len(got.Reservations) > 0 {
		t.Errorf("a cluster that has nothing: %+v, %v", got, err)
	}
	contract.Status.Ended, contract.Status.Reclaimed = &waits.Spec.Until, &waits.Spec.Until
	if err := admin.Status().Update(ctx, contract); err != nil {
		t.Fatal(err)
	}
	if _, err := user.Reclaim(ctx, deal); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("what has ended is taken back: %v", err)
	}
	lent := map[string]api.Resources{"r-1": nil}
	if _, err := user.Evict(ctx, api.Audit{Cluster: "rome", Reservations: lent}); api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("a cluster without a Peer: %v", err)
	}
}

// A request that goes away without an answer is neither approved nor refused.
func TestAnswerToWhatGoesAway(t *testing.T) {
	const digest = "0123456789abcdef"
	config, admin := simulated(t)
	user, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, approve := range []bool{false, true} {
		o := &api.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "r-1"}}
		o.Spec.Resources, o.Spec.Until = api.Resources{"cpu": resource.MustParse("1")}, metav1.Now()
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		o.Status.Approval = &api.PendingApproval{Digest: digest, Asked: metav1.Now(), By: metav1.Now()}
		if err := admin.Status().Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		go func() {
			for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
				var now api.ProviderInstruction
				if admin.Get(ctx, kube.ObjectKeyFromObject(o), &now) == nil && len(now.Annotations) > 0 {
					_ = admin.Delete(ctx, &now)
					return
				}
			}
		}()
		seen := api.Envelope[api.Approval]{ID: "r-1", Payload: api.Approval{Digest: digest}}
		if err := user.Answer(ctx, seen, api.Answer{Approve: approve}); api.CodeOf(err) != api.CodeConflict {
			t.Errorf("approve %t is answered %v", approve, err)
		}
		cancel()
	}
}

// What is due of a contract is not its whole cost.
func TestDue(t *testing.T) {
	config, admin := simulated(t)
	o := &api.Contract{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "r-1"}}
	if err := admin.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	o.Status.Cost, o.Status.Due = "9.00 EUR", &api.Due{Amount: "0.50 EUR", At: metav1.Now()}
	o.Status.Terms = api.ContractTerms{Resources: api.Resources{"cpu": resource.MustParse("1")},
		Begins: metav1.Now(), Until: metav1.Now()}
	if err := admin.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	user, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := user.Contracts(t.Context()); err != nil || len(all) != 1 || all[0].Payload.Due != "0.50 EUR" {
		t.Errorf("it shows %+v, %v", all, err)
	}
}
