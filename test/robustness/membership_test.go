package robustness

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/robustness/member"
)

// What an operator says about a member counts at once, also on connections and watches that are open.
func TestOperatorActsOnLiveConnections(t *testing.T) {
	t.Parallel()
	b := newProcess(t)
	b.start()
	rome, milan := b.join("rome"), b.join("milan")
	if err := milan.Offer(t.Context(), cpu(10_000)); err != nil {
		t.Fatal(err)
	}
	request := api.Request{Resources: cpu(1000)}
	held, err := rome.Reserve(t.Context(), "held", request)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := rome.Bind(t.Context(), held, milan)
	if err != nil {
		t.Fatal(err)
	}
	watch := follow(t, rome)
	watch.begins()
	watch.sees(all(t, b.operator))
	tries := func(key string, want api.Code) {
		t.Helper()
		if _, err := rome.Reserve(t.Context(), key, request); want == "" && err != nil ||
			want != "" && api.CodeOf(err) != want {
			t.Errorf("reserve: %v, want %q", err, want)
		}
	}

	b.operate(t, "", "suspend", "rome")
	if !watch.hears(api.CodeUnavailable) {
		t.Error("the watch of a suspended member ended without a word")
	}
	watch.hears(api.CodeSuspended)
	tries("suspended", api.CodeSuspended)
	if is := all(t, b.operator)[bound.ID].Payload.State; is != api.Reserved {
		t.Errorf("suspending a member made what it had %s", is)
	}

	b.operate(t, "", "resume", "rome")
	tries("resumed", "")
	watch.sees(all(t, b.operator))

	b.operate(t, "", "revoke", "rome", "--yes")
	tries("revoked", api.CodeSuspended)
	if err := rome.RenewCertificate(t.Context()); api.CodeOf(err) != api.CodeSuspended {
		t.Errorf("a revoked member renews: %v", err)
	}
	b.operate(t, "it must join again", "resume", "rome")
	b.operate(t, `no member "pisa"`, "suspend", "pisa")
	b.balanced()
}

// operate runs a command of the binary as operator: one that works, or one that says why not.
func (b *process) operate(t *testing.T, refusal string, args ...string) {
	t.Helper()
	out, err := b.bourse(append([]string{"broker"}, args...)...)
	if (err != nil) != (refusal != "") || !strings.Contains(out, refusal) {
		t.Errorf("bourse broker %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// A cluster whose token did not name it waits for approval: its certificate is no membership.
func TestCertificateIsNoMembership(t *testing.T) {
	t.Parallel()
	b := newProcess(t)
	b.start()
	token, err := b.operator.CreateToken(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	rome, err := member.Join(t, "rome", token.Token, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rome.Clusters(t.Context()); api.CodeOf(err) != api.CodeNotMember {
		t.Errorf("a cluster that waits for approval lists clusters: %v", err)
	}
	if _, err := member.Join(t, "pisa", token.Token, time.Now()); api.CodeOf(err) != api.CodeTokenSpent {
		t.Errorf("a spent token: %v", err)
	}
	b.kill()
	b.start()
	b.operate(t, "", "approve", "rome")
	if err := rome.ShowCard(t.Context()); err != nil {
		t.Error(err)
	}
}

// What is bound to a provider that is gone for ever stays in its books, however long, until an
// operator removes it. What had ended is Released after market.FreeTime, so that it counts against
// no cap of its consumer. What others provide is untouched, and the cluster may join again.
func TestProviderGoneForEver(t *testing.T) {
	t.Parallel()
	h := newHosted(t)
	rome, milan, paris := h.join("rome"), h.join("milan"), h.join("paris")
	reserve := func(key string, on *member.Member) string {
		t.Helper()
		if err := on.Offer(t.Context(), cpu(10_000)); err != nil {
			t.Fatal(err)
		}
		r, err := rome.Reserve(t.Context(), key, api.Request{
			Resources: cpu(4000), Target: on.ID, Duration: &metav1.Duration{Duration: 300 * 24 * time.Hour},
		})
		if err == nil {
			r, err = rome.Bind(t.Context(), r, on)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	kept, ended, elsewhere := reserve("kept", milan), reserve("ended", milan), reserve("elsewhere", paris)
	word := rome.End(all(t, h.operator)[ended], api.ReasonReleased)
	if _, err := rome.Release(t.Context(), ended, word); err != nil {
		t.Fatal(err)
	}

	h.clock.pass(60 * 24 * time.Hour)
	h.look()
	h.wait(3 * time.Minute)
	known := all(t, h.operator)
	if k, e := known[kept].Payload.State, known[ended].Payload.State; k != api.Reserved || e != api.Released {
		t.Errorf("after two months of silence: %s and %s, want %s and %s", k, e, api.Reserved, api.Released)
	}
	c, err := h.operator.Cluster(t.Context(), "milan")
	if got := millis(c.Payload.Pools[api.GeneralPool].Reserved); err != nil || got != 4000 || c.Payload.Fresh {
		t.Errorf("of milan %d milli-CPU are reserved (fresh: %v, %v), want 4000", got, c.Payload.Fresh, err)
	}

	if out, err := exec.Command(binary, "broker", "remove", "milan",
		"--yes", "--server", "unix://"+h.options.Socket).CombinedOutput(); err != nil {
		t.Fatalf("broker remove: %v: %s", err, out)
	}
	known = all(t, h.operator)
	for _, id := range []string{kept, ended} {
		if is := known[id].Payload; is.State != api.Released {
			t.Errorf("reservation %s is %s (%s), want %s", id, is.State, is.Reason, api.Released)
		}
	}
	if why := known[kept].Payload.Reason; why != api.ReasonMemberRemoved {
		t.Errorf("the reason is %s, want %s", why, api.ReasonMemberRemoved)
	}
	if is := known[elsewhere].Payload.State; is != api.Reserved {
		t.Errorf("what paris provides is %s", is)
	}
	if err := milan.Offer(t.Context(), cpu(10_000)); api.CodeOf(err) != api.CodeSuspended {
		t.Errorf("a removed member advertises: %v", err)
	}
	balanced(t, h.options.MetricsAddress)
	reserve("again", h.join("milan"))
}
