package cluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
)

// showing plays the agent: it shows a condition in each Proposal that it has not shown it in.
func showing(ctx context.Context, admin kube.Client, condition metav1.Condition) {
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		var all api.ProposalList
		_ = admin.List(ctx, &all)
		for i := range all.Items {
			o := &all.Items[i]
			if o.Spec.Buyer != "" && o.Spec.Answer == nil {
				continue
			}
			condition.ObservedGeneration = o.Generation
			if meta.SetStatusCondition(&o.Status.Conditions, condition) {
				_ = admin.Status().Update(ctx, o)
			}
		}
	}
}

// A proposal is an object of its user. One that is refused is deleted, and one that the seller does not have yet stays.
func TestPropose(t *testing.T) {
	for reason, c := range map[string]struct {
		status metav1.ConditionStatus
		code   api.Code
		stays  bool
	}{
		"Sent":        {metav1.ConditionTrue, "", true},
		"Invalid":     {metav1.ConditionFalse, api.CodeInvalid, false},
		"Unavailable": {metav1.ConditionFalse, api.CodeUnavailable, true},
	} {
		t.Run(reason, func(t *testing.T) {
			config, admin := simulated(t)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			go showing(ctx, admin, metav1.Condition{Type: api.ConditionSent, Status: c.status, Reason: reason, Message: "so it is"})
			user, err := cluster.New(config, "team")
			if err != nil {
				t.Fatal(err)
			}
			_, err = user.Propose(ctx, api.ProposalCreate{Seller: "milan", Offer: "web", Plan: "small", ProposalTerms: api.ProposalTerms{Units: 2}})
			if (err == nil) != (c.code == "") || err != nil && (api.CodeOf(err) != c.code || !strings.Contains(err.Error(), "so it is")) {
				t.Errorf("it is answered %v", err)
			}
			var all api.ProposalList
			if err := admin.List(ctx, &all, kube.InNamespace("team")); err != nil || (len(all.Items) == 1) != c.stays {
				t.Errorf("there are %d, %v", len(all.Items), err)
			}
			for _, o := range all.Items {
				if o.Spec.Seller != "milan" || o.Spec.Units != 2 || o.Spec.Buyer != "" {
					t.Errorf("it proposes %+v", o.Spec)
				}
			}
		})
	}
}

// An answer is written into the object of what the user saw.
func TestAnswerProposal(t *testing.T) {
	config, admin := simulated(t)
	user, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for name, buyer := range map[string]string{"p-1": "rome", "p-2": "rome", "p-3": "rome", "own": ""} {
		o := &api.Proposal{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: name},
			Spec: api.ProposalSpec{Buyer: buyer, Seller: "milan", Offer: "web", Plan: "small"}}
		if err := admin.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
		o.Status.ID, o.Status.Digest = name, "SHA256:"+name
		if err := admin.Status().Update(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	for id, digest := range map[string]string{"p-1": "SHA256:p-2", "own": "", "none": ""} {
		want := api.CodeNotFound
		if digest != "" {
			want = api.CodeConflict
		}
		if _, err := user.AnswerProposal(ctx, id, api.ProposalAnswer{Digest: digest}); api.CodeOf(err) != want {
			t.Errorf("an answer to %s of %q: %v", id, digest, err)
		}
	}
	go showing(ctx, admin, metav1.Condition{Type: api.ConditionAnswered, Status: metav1.ConditionTrue, Reason: "Countered"})
	for id, c := range map[string]struct {
		word api.ProposalAnswer
		want api.ProposalReply
	}{
		"p-1": {api.ProposalAnswer{Digest: "SHA256:p-1"}, api.ProposalReply{Decision: api.ProposalAccept}},
		"p-2": {api.ProposalAnswer{ProposalTerms: api.ProposalTerms{Units: 3}},
			api.ProposalReply{Decision: api.ProposalCounter, ProposalTerms: api.ProposalTerms{Units: 3}}},
		"p-3": {api.ProposalAnswer{Decline: true, ProposalTerms: api.ProposalTerms{Message: "no"}},
			api.ProposalReply{Decision: api.ProposalDecline, ProposalTerms: api.ProposalTerms{Message: "no"}}},
	} {
		got, err := user.AnswerProposal(ctx, id, c.word)
		if err != nil || got.ID != id || !got.Payload.Countered {
			t.Errorf("%s: %+v, %v", id, got, err)
		}
		o := &api.Proposal{}
		err = admin.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: id}, o)
		if err != nil || o.Spec.Answer == nil || *o.Spec.Answer != c.want {
			t.Errorf("%s says %+v, %v", id, o.Spec.Answer, err)
		}
	}
}
