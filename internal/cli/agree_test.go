package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

const seenDigest, otherDigest = "0123456789abcdef", "fedcba9876543210"

// asAnAdmin returns a client of a simulated cluster as an admin, and what runs a command as one.
func asAnAdmin(t *testing.T) (admin kube.Client, run func(args ...string) (string, error)) {
	t.Helper()
	config := kubeapi.New(kubeapi.Options{Types: federation.Kinds()}).Config()
	admin, err := kube.New(config, kube.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	return admin, func(args ...string) (string, error) {
		t.Helper()
		c, err := cluster.New(config, api.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		sh := &shell{out: &out, progress: &out, cluster: c, output: "wide"}
		root := Root(&out, &out)
		root.RemoveCommand(root.Commands()...)
		root.AddCommand(sh.approvalsCommand(), sh.approveCommand(), sh.refuseCommand(), sh.reclaimCommand())
		root.SetArgs(args)
		err = root.ExecuteContext(t.Context())
		return out.String(), err
	}
}

// answerAs plays the agent: it answers the annotation of an object once it is there.
func answerAs(ctx context.Context, admin kube.Client, key kube.ObjectKey, name string) {
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		var o api.ProviderInstruction
		if admin.Get(ctx, key, &o) != nil || o.Annotations["bourse.dev/"+name] == "" {
			continue
		}
		o.Status.Answered = map[string]string{name: strings.Fields(o.Annotations["bourse.dev/"+name])[0]}
		meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{Type: api.ConditionAnswered,
			Status: metav1.ConditionTrue, Reason: "Approved"})
		if admin.Status().Update(ctx, &o) == nil {
			return
		}
	}
}

// An admin approves what was shown. What took its place since then is refused, and a command that names no digest changes
// nothing where it cannot ask.
func TestApprovesWhatWasSeen(t *testing.T) {
	admin, run := asAnAdmin(t)
	o := &api.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "r-1"},
		Spec: api.Instruction{Consumer: "rome", Pool: "general", Resources: demoResources("cpu", "1"), Until: metav1.NewTime(time.Unix(1_900_000_000, 0))}}
	if err := admin.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	o.Status.Approval = &api.PendingApproval{Digest: seenDigest, Asked: metav1.Now(), By: metav1.Now(),
		Offer: "web", Plan: "small", Units: 2, Price: "0.08 EUR/hour"}
	if err := admin.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if out, err := run("approvals"); err != nil || !strings.Contains(out, seenDigest) {
		t.Errorf("the list is %s, %v", out, err)
	}
	for _, c := range []struct {
		args, says string
		code       api.Code
	}{
		{"approve r-1", "bourse approve r-1 --digest " + seenDigest, api.CodeInvalid},
		{"refuse r-1", "bourse refuse r-1 --digest " + seenDigest, api.CodeInvalid},
		{"approve r-1 --digest " + otherDigest, "ChangedSince", api.CodeConflict},
		{"approve r-2 --yes", "bourse approvals", api.CodeNotFound},
	} {
		out, err := run(strings.Fields(c.args)...)
		if api.CodeOf(err) != c.code || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s is answered %v", c.args, err)
		}
		const what = "rome asks for cpu=1 of pool general until 2030-03-17T17:46:40Z; it buys 2 units of web/small " +
			"at 0.08 EUR/hour each"
		if c.code != api.CodeNotFound && !strings.Contains(out+err.Error(), what) {
			t.Errorf("%s shows %s", c.args, out)
		}
		if err := admin.Get(t.Context(), kube.ObjectKeyFromObject(o), o); err != nil || len(o.Annotations) > 0 {
			t.Errorf("%s wrote %v, %v", c.args, o.Annotations, err)
		}
	}
	go answerAs(t.Context(), admin, kube.ObjectKeyFromObject(o), "approve")
	out, err := run("approve", "r-1", "--digest", seenDigest)
	if err != nil || !strings.Contains(out, "r-1 is approved") {
		t.Errorf("it is answered %s, %v", out, err)
	}
	err = admin.Get(t.Context(), kube.ObjectKeyFromObject(o), o)
	if err != nil || !strings.HasPrefix(o.Annotations["bourse.dev/approve"], seenDigest+".") {
		t.Errorf("it wrote %v, %v", o.Annotations, err)
	}
}

// A contract is taken back as it was shown.
func TestReclaimsWhatWasSeen(t *testing.T) {
	admin, run := asAnAdmin(t)
	o := &api.Contract{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "r-1"}}
	o.Spec.Reservation = "r-1"
	if err := admin.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	o.Status.Digest, o.Status.Terms = seenDigest, api.ContractTerms{Buyer: "rome", Seller: "milan", Offer: "web",
		Plan: "spot", Units: 1, Resources: demoResources("cpu", "1"), Begins: metav1.Now(), Until: metav1.Now()}
	if err := admin.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for args, says := range map[string]string{
		"reclaim r-1":                         "bourse reclaim r-1 --digest " + seenDigest,
		"reclaim r-1 --digest " + otherDigest: "ChangedSince",
	} {
		out, err := run(strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(out+err.Error(), "rome bought 1 unit of milan/web/spot") {
			t.Errorf("%s shows %s and is answered %v", args, out, err)
		}
		if err := admin.Get(t.Context(), kube.ObjectKeyFromObject(o), o); err != nil || len(o.Annotations) > 0 {
			t.Errorf("%s wrote %v, %v", args, o.Annotations, err)
		}
	}
}
