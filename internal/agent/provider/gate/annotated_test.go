package gate_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/provider/gate"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// annotated is a gate where an admin answers by annotations.
type annotated struct {
	*testGate
	client.Client
	shown     *gate.Instructions
	approvals *gate.Approvals
	recorder  *events.FakeRecorder
}

func newAnnotated(t *testing.T) *annotated {
	t.Helper()
	c := clientOf(t, "ProviderInstruction", "providerinstructions")
	a := &annotated{testGate: byHand(t), Client: c, recorder: events.NewFakeRecorder(100)}
	a.shown = &gate.Instructions{Client: c, Namespace: api.Namespace, Market: a.Market, Events: a.recorder}
	a.approvals = &gate.Approvals{Client: c, Gate: a.Gate, Events: a.recorder}
	return a
}

// waits makes a reservation that waits, and returns it with its object.
func (a *annotated) waits(id string) (*transporttest.Deal, *api.ProviderInstruction) {
	a.t.Helper()
	d := a.deal(id, "1")
	d.ByHand(30 * time.Minute)
	a.heard(d.Signed())
	return d, a.show(id)
}

// show shows a reservation, and returns its object.
func (a *annotated) show(id string) *api.ProviderInstruction {
	a.t.Helper()
	for range 2 {
		if _, err := a.shown.Show(a.t.Context(), a.ours(id)); err != nil {
			a.t.Fatal(err)
		}
	}
	return a.read(id)
}

func (a *annotated) read(id string) *api.ProviderInstruction {
	a.t.Helper()
	var i api.ProviderInstruction
	if err := a.Get(a.t.Context(), types.NamespacedName{Namespace: api.Namespace, Name: id}, &i); err != nil {
		a.t.Fatal(err)
	}
	return &i
}

// says annotates an instruction, and returns the reservation's record and the answer, nil if there is none.
func (a *annotated) says(i *api.ProviderInstruction, name, value string) (*market.Reservation, *metav1.Condition) {
	a.t.Helper()
	stored := a.read(i.Name)
	metav1.SetMetaDataAnnotation(&stored.ObjectMeta, "bourse.dev/"+name, value)
	if err := a.Update(a.t.Context(), stored); err != nil {
		a.t.Fatal(err)
	}
	return a.answers(i.Name)
}

func (a *annotated) answers(id string) (*market.Reservation, *metav1.Condition) {
	a.t.Helper()
	for range 3 {
		at := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: api.Namespace, Name: id}}
		if _, err := a.approvals.Reconcile(a.t.Context(), at); err != nil {
			a.t.Fatal(err)
		}
	}
	return a.ours(id), meta.FindStatusCondition(a.read(id).Status.Conditions, api.ConditionAnswered)
}

// is checks an answer.
func (a *annotated) is(c *metav1.Condition, status metav1.ConditionStatus, reason string, parts ...string) {
	a.t.Helper()
	if c == nil || c.Status != status || c.Reason != reason {
		a.t.Fatalf("the answer is %+v, want %s %s", c, status, reason)
	}
	for _, part := range parts {
		if !strings.Contains(c.Message, part) {
			a.t.Errorf("the answer lacks %q: %s", part, c.Message)
		}
	}
}

// told returns the Events since the last call.
func (a *annotated) told() (all []string) {
	for {
		select {
		case e := <-a.recorder.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

// An instruction that waits shows what to decide about, and the command to paste.
func TestWhatToDecideAboutIsShown(t *testing.T) {
	a := newAnnotated(t)
	_, i := a.waits("r-1")
	r, s := a.ours("r-1"), i.Status.Approval
	if s == nil || !s.Asked.Time.Equal(r.Created.Go().Truncate(time.Second)) || !s.By.Time.Equal(r.ApproveBy.Go()) {
		t.Fatalf("it shows %+v of what came at %s and waits until %s", s, r.Created.Go(), r.ApproveBy.Go())
	}
	c := meta.FindStatusCondition(i.Status.Conditions, api.ConditionAwaitsApproval)
	for _, command := range []string{"bourse.dev/approve=" + s.Digest, "'bourse.dev/refuse=" + s.Digest + " REASON'"} {
		command = "kubectl -n bourse annotate --overwrite providerinstruction r-1 " + command
		if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, command) {
			t.Errorf("it lacks %s: %+v", command, c)
		}
	}
	if told := a.told(); len(told) != 1 || !strings.Contains(told[0], s.Digest) {
		t.Errorf("it is told %q", told)
	}
	if _, other := a.waits("r-2"); other.Status.Approval.Digest == s.Digest {
		t.Error("two have one digest")
	}
}

// kubectl and GitOps approve by the digest of what waits. That is answered once.
func TestApprovedByAnnotation(t *testing.T) {
	a := newAnnotated(t)
	_, i := a.waits("r-1")
	a.told()
	digest := i.Status.Approval.Digest
	r, c := a.says(i, "approve", digest)
	a.is(c, metav1.ConditionTrue, "Approved", digest)
	if r.Acceptance == "" || r.State != api.Held {
		t.Errorf("not approved: %+v", r)
	}
	i = a.show("r-1")
	if i.Status.Answered["approve"] != digest || i.Annotations["bourse.dev/approve"] != digest {
		t.Errorf("it keeps %v of %v", i.Status.Answered, i.Annotations)
	}
	if again, _ := a.answers("r-1"); again != r || a.read("r-1").ResourceVersion != i.ResourceVersion {
		t.Error("it is answered again")
	}
	if told := a.told(); len(told) != 1 || !strings.Contains(told[0], digest) {
		t.Errorf("it is told %q", told)
	}
	_, c = a.says(i, "approve", digest+".again")
	a.is(c, metav1.ConditionTrue, "Approved", digest+".again")
	r, c = a.says(i, "refuse", digest+" not you")
	a.is(c, metav1.ConditionFalse, "ChangedSince", digest, "has been approved")
	if r.Acceptance == "" || r.State != api.Held {
		t.Errorf("refused once approved: %+v", r)
	}
}

// A refusal has a text for the consumer, which is cut, and counts before an approval.
func TestRefusedByAnnotation(t *testing.T) {
	a := newAnnotated(t)
	_, i := a.waits("r-1")
	i.Annotations = map[string]string{"bourse.dev/approve": i.Status.Approval.Digest}
	if err := a.Update(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	r, c := a.says(i, "refuse", i.Status.Approval.Digest+".1 no room\x1b[2J"+strings.Repeat("!", 200_000))
	if !r.Denied() || !strings.HasPrefix(r.Message, "no room [2J!!!") || len(r.Message) != 1024 {
		t.Errorf("not refused: %+v", r)
	}
	a.is(c, metav1.ConditionFalse, "ChangedSince", i.Status.Approval.Digest) // the approval is answered last
	if told := a.told(); len(told) != 3 || !strings.Contains(told[1], "Refused") {
		t.Errorf("it is told %q", told)
	}
	_, i = a.waits("r-2")
	r, c = a.says(i, "refuse", i.Status.Approval.Digest)
	a.is(c, metav1.ConditionTrue, "Refused")
	if !r.Denied() || r.Message != "" {
		t.Errorf("not refused: %+v", r)
	}
}

// An admin reads in the object what became of an answer: it stays for a while after the end. What has ended by itself
// is not refused any more.
func TestAnswersOutliveTheirReservations(t *testing.T) {
	a := newAnnotated(t)
	stays := func(id string, want bool) {
		t.Helper()
		again, err := a.shown.Show(t.Context(), a.ours(id))
		var i api.ProviderInstruction
		found := a.Get(t.Context(), types.NamespacedName{Namespace: api.Namespace, Name: id}, &i)
		if err != nil || (again > 0) != want || (found == nil) != want || want && i.Status.State != api.Failed {
			t.Errorf("%s: %v, again after %s; %+v, %v", id, err, again, i.Status, found)
		}
	}
	_, refused := a.waits("r-1")
	_, late := a.waits("r-2")
	a.waits("r-3")
	digest := late.Status.Approval.Digest
	_, c := a.says(refused, "refuse", refused.Status.Approval.Digest)
	a.is(c, metav1.ConditionTrue, "Refused")
	stays("r-1", true)
	_, c = a.answers("r-1")
	a.is(c, metav1.ConditionTrue, "Refused")
	a.move(30*time.Minute + 30*time.Second)
	stays("r-1", false)
	stays("r-3", false)
	r, c := a.says(late, "refuse", digest)
	a.is(c, metav1.ConditionFalse, "ChangedSince", "has ended already: it is Failed", "nothing was changed")
	if !r.Denied() || r.Message == "" {
		t.Errorf("it ended as %+v", r)
	}
	stays("r-2", true)
}

// What names nothing that waits changes nothing, and is answered.
func TestOtherAnnotationsChangeNothing(t *testing.T) {
	a := newAnnotated(t)
	_, other := a.waits("r-1")
	_, i := a.waits("r-2")
	for _, c := range []struct{ name, value, reason, says string }{
		{"approve", "true", "Invalid", `"true"`},
		{"approve", "", "Invalid", `""`},
		{"approve", other.Status.Approval.Digest, "ChangedSince", other.Status.Approval.Digest},
		{"approve", i.Status.Approval.Digest + " yes", "Invalid", " yes"},
		{"refuse", "not on Fridays", "Invalid", `"not on Fridays"`},
		{"refuse", "\x1b[2J", "Invalid", `"\x1b[2J"`},
		{"refuse", strings.Repeat("a", 250_000), "Invalid", `"aaa`},
	} {
		a.told()
		r, answer := a.says(i, c.name, c.value)
		a.is(answer, metav1.ConditionFalse, c.reason, c.says, "nothing was changed",
			"kubectl -n bourse get providerinstruction r-2 -o 'jsonpath={.status.approval}'")
		if !r.AwaitsApproval() || len(answer.Message) > 1024 {
			t.Errorf("%s %.80q: %+v", c.name, c.value, r)
		}
		if told := a.told(); len(told) != 1 {
			t.Errorf("%s %.80q is told %q", c.name, c.value, told)
		}
	}
	if r, answer := a.says(i, "approve", i.Status.Approval.Digest); r.Acceptance == "" {
		t.Errorf("what is answered before is in the way: %+v", answer)
	}
}

// An approval that comes when another assignment waits approves nothing, and says so.
func TestApprovalOfAnotherAssignment(t *testing.T) {
	a := newAnnotated(t)
	d, i := a.waits("r-1")
	old := i.Status.Approval.Digest
	d.Again()
	d.ByHand(20 * time.Minute)
	a.heard(d.Signed())
	if r := a.ours("r-1"); r.Generation != 2 || !r.AwaitsApproval() {
		t.Fatalf("no other one waits: %+v", r)
	}
	r, c := a.says(i, "approve", old) // the object still shows the old one
	a.is(c, metav1.ConditionFalse, "ChangedSince", old)
	i = a.show("r-1")
	if !r.AwaitsApproval() || i.Status.Approval.Digest == old || i.Annotations["bourse.dev/approve"] != old {
		t.Errorf("after an approval of another one: %+v, %+v", r, i)
	}
	r, c = a.says(i, "approve", i.Status.Approval.Digest)
	a.is(c, metav1.ConditionTrue, "Approved", i.Status.Approval.Digest)
	if r.Acceptance == "" {
		t.Errorf("not approved: %+v", r)
	}
}

// An approval of a suspended consumer is answered, and is not carried out later by itself.
func TestApprovalOfASuspendedConsumer(t *testing.T) {
	a := newAnnotated(t)
	_, i := a.waits("r-1")
	a.suspends("the bill is open")
	digest := i.Status.Approval.Digest
	_, c := a.says(i, "approve", digest)
	a.is(c, metav1.ConditionFalse, "Suspended", digest, "bourse.dev/approve=DIGEST.2")
	a.suspends("")
	if r, _ := a.answers("r-1"); !r.AwaitsApproval() {
		t.Errorf("approved later: %+v", r)
	}
	if r, c := a.says(i, "approve", digest+".2"); r.Acceptance == "" {
		t.Errorf("not approved: %+v, %+v", r, c)
	}
}

// stale returns an old copy of an object.
type stale struct {
	client.Client
	copyTo func(o client.Object)
}

func (s stale) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	s.copyTo(o)
	return nil
}

// clientOf returns a client of an API server that serves one of our kinds.
func clientOf(t *testing.T, kind, resource string) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	server := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{{GroupVersion: api.GroupVersion,
		Kind: kind, Resource: resource, Namespaced: true, Status: true}}})
	c, err := client.New(server.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// An old copy of an object leads to no other answer than the one that was given.
func TestAnOldCopyIsNotAnswered(t *testing.T) {
	a := newAnnotated(t)
	d, i := a.waits("r-1")
	digest := i.Status.Approval.Digest
	metav1.SetMetaDataAnnotation(&i.ObjectMeta, "bourse.dev/approve", digest)
	if err := a.Update(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	old := a.read("r-1")
	_, c := a.answers("r-1")
	a.is(c, metav1.ConditionTrue, "Approved", digest)
	d.Again()
	d.ByHand(20 * time.Minute)
	a.heard(d.Signed())
	a.told()
	lagging := stale{a.Client, func(o client.Object) { old.DeepCopyInto(o.(*api.ProviderInstruction)) }}
	behind := &gate.Approvals{Client: lagging, Gate: a.Gate, Events: a.recorder}
	if _, err := behind.Reconcile(t.Context(), ctrl.Request{}); err != nil {
		t.Fatal(err)
	}
	_, c = a.answers("r-1")
	if a.is(c, metav1.ConditionTrue, "Approved", digest); len(a.told()) > 0 {
		t.Error("it is told again")
	}
}
