package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// An admin says which key paris has. While that is another one than it shows, nothing is agreed
// with it and the next best gets the request; once it is right, paris is asked again.
func TestAdminsTrust(t *testing.T) {
	w := start(t)
	paris, err := w.paris.People(0).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	trust := func(fingerprint, reason string) {
		t.Helper()
		if _, err := w.rome.People(0).Trust(t.Context(), "paris", fingerprint); err != nil {
			t.Fatal(err)
		}
		peerBecomes(t, w.rome, "paris", reason)
	}
	t.Cleanup(func() { _, _ = w.rome.People(0).Trust(context.Background(), "paris", "") })
	asks := func(name, provider string) *api.ResourceRequest {
		t.Helper()
		r := ask(t, w.rome, "default", name, api.Request{Resources: cpu("1"), Prefer: []string{"paris"}})
		becomes(t, w.rome, r, api.Reserved)
		if r.Status.Provider != provider {
			t.Errorf("%s is at %s, want %s", name, r.Status.Provider, provider)
		}
		release(t, w.rome, r)
		return r
	}
	asks("before", "paris")

	trust("SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", string(api.CodeKeyChanged))
	r := asks("elsewhere", "milan")
	known, err := w.rome.People(0).Reservation(t.Context(), r.Status.Reservation)
	if err != nil || !slices.ContainsFunc(known.Payload.Tried,
		func(a api.Tried) bool { return a.Provider == "paris" && a.Reason == api.ReasonKeyChanged }) {
		t.Errorf("tried %+v, %v", known.Payload.Tried, err)
	}

	trust(paris.Fingerprint, "Confirmed")
	asks("again", "paris")
}

// peerBecomes waits until a Peer is, or is not, trusted for a reason.
func peerBecomes(t *testing.T, m *federation.Member, peer, reason string) {
	t.Helper()
	eventually(t, peer+" is "+reason+" at "+m.Name, func(ctx context.Context) error {
		var p api.Peer
		if err := m.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: peer}, &p); err != nil {
			return err
		}
		c := meta.FindStatusCondition(p.Status.Conditions, api.ConditionTrusted)
		if c == nil || c.Reason != reason || (c.Status == metav1.ConditionTrue) != (reason == "Confirmed" ||
			reason == "FirstUse") {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}
