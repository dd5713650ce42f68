package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A certificate is not a membership: who joined with a token for anyone waits for approval.
func TestApproval(t *testing.T) {
	ctx := context.Background()
	f := servertest.Start(t, servertest.Options{})
	lima := f.Enter("lima", f.Token(""))
	if _, err := lima.Clusters(ctx); api.CodeOf(err) != api.CodeNotMember {
		t.Errorf("before its approval: %v", err)
	}
	members, err := f.Operator.Members(ctx)
	if err != nil || len(members) != 1 || members[0].Payload.State != api.MemberPending ||
		members[0].Payload.Fingerprint != lima.Key.Public().Fingerprint().String() || members[0].Payload.Source == "" {
		t.Errorf("the operator sees %+v, %v", members, err)
	}
	if _, err := f.Operator.SetMember(ctx, "lima", "approve"); err != nil {
		t.Fatal(err)
	}
	if _, err := lima.Clusters(ctx); err != nil {
		t.Errorf("after its approval: %v", err)
	}
}

// The same cluster may send the same token again, when the answer was lost, and after a restart.
func TestJoiningAgain(t *testing.T) {
	ctx := context.Background()
	f := servertest.Start(t, servertest.Options{})
	token := f.Token("lima")
	lima := f.Enter("lima", token)
	key, err := tlsid.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Stranger().Join(ctx, lima.Submission(token, key)); api.CodeOf(err) != api.CodeTokenSpent {
		t.Errorf("the token with another TLS key: %v", err)
	}
	other := f.Token("lima")
	submission := lima.Submission(other, key)
	for range 2 {
		joined, err := f.Stranger().Join(ctx, submission)
		if err != nil || joined.State != api.MemberActive {
			t.Errorf("the same submission: %s, %v", joined.State, err)
		}
	}
}

// Suspension and revocation act at once, on connections and watches that are open.
func TestSuspensionActsOnWhatIsOpen(t *testing.T) {
	ctx := context.Background()
	for _, step := range []string{"suspend", "revoke", "remove"} {
		t.Run(step, func(t *testing.T) {
			f := servertest.Start(t, servertest.Options{})
			rome := f.Join("rome")
			var watches errgroup.Group
			open := make(chan struct{}, 1000)
			for range 8 {
				watches.Go(func() error { return watchUntilRefused(ctx, rome.Client, open) })
			}
			<-open // some are open, others about to be: the refusal must not slip between
			if _, err := f.Operator.SetMember(ctx, "rome", step); err != nil {
				t.Fatal(err)
			}
			if err := watches.Wait(); err != nil {
				t.Error(err)
			}
			if _, err := rome.Reserve(ctx, "key", transporttest.Request("1")); api.CodeOf(err) != api.CodeSuspended {
				t.Errorf("a call on an open connection: %v", err)
			}
			err := rome.Renew()
			if renewed := err == nil; renewed != (step == "suspend") {
				t.Errorf("renewal: %v", err)
			}
			if step != "suspend" {
				return
			}
			if _, err := f.Operator.SetMember(ctx, "rome", "resume"); err != nil {
				t.Fatal(err)
			}
			if _, err := rome.Reservations(ctx); err != nil {
				t.Errorf("resumed: %v", err)
			}
		})
	}
}

// watchUntilRefused watches again and again, as an agent does, until it may not.
func watchUntilRefused(ctx context.Context, c *client.Client, open chan<- struct{}) error {
	for {
		err := c.Watch(ctx, "", func(api.WatchEvent) error { open <- struct{}{}; return nil })
		switch api.CodeOf(err) {
		case api.CodeSuspended:
			return nil
		case api.CodeUnavailable:
		default:
			return errors.Join(errors.New("the watch ended in another way"), err)
		}
	}
}

func csr(t *testing.T) []byte {
	t.Helper()
	key, err := tlsid.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	request, err := tlsid.NewCSR(key)
	if err != nil {
		t.Fatal(err)
	}
	return request
}

// A member without a card gets an error when it requests capacity, not later from a provider that cannot verify its
// signature. Nothing is held. With its card the same call succeeds.
func TestAReservationNeedsACard(t *testing.T) {
	ctx := context.Background()
	f := servertest.Start(t, servertest.Options{})
	f.Join("milan").Advertise("8")
	rome := f.Enter("rome", f.Token("rome"))
	before := f.Revision()
	_, reserved := rome.Reserve(ctx, "key", transporttest.Request("2"))
	_, evaluated := rome.Evaluate(ctx, transporttest.Request("2"))
	for what, err := range map[string]error{"a reservation": reserved, "an evaluation": evaluated} {
		if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeConflict ||
			!strings.Contains(e.Detail, "rome has not shown its card") || !strings.Contains(e.Remedy, "/clusters/rome/card") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if now := f.Exchange.View().Revision; now != before {
		t.Errorf("the market is at %d, and was at %d", now, before)
	}
	rome.ShowCard(api.Properties{})
	if r, err := rome.Reserve(ctx, "key", transporttest.Request("2")); err != nil || r.Payload.State != api.Held {
		t.Errorf("with its card: %+v, %v", r.Payload, err)
	}
}

// The operator sees which program each member runs, by its last call; what a member names is cut and printable.
func TestSoftwareOfMembers(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	lima := f.Join("lima")
	seen := func() string {
		members, err := f.Operator.Members(t.Context())
		if err != nil || len(members) != 1 {
			t.Fatal(members, err)
		}
		return members[0].Payload.Software
	}
	if _, err := lima.Clusters(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := seen(); got != "bourse/"+client.Version() {
		t.Errorf("it runs %q", got)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL+api.Prefix+"/clusters", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("User-Agent", "x\x85"+strings.Repeat("y", 100))
	answer, err := lima.HTTP.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if got := seen(); got != "x?"+strings.Repeat("y", 62) {
		t.Errorf("it runs %q", got)
	}
}
