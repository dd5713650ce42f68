package peering

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/peers"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// closes is a side that cannot serve what is used, and notes whether an end is forced.
type closes struct {
	slow
	fails, forced bool
	waits         string
}

func (c *closes) Serve(context.Context, string) (string, error) {
	if c.fails {
		return "", errors.New("the API server is slow")
	}
	return c.waits, nil
}

func (c *closes) Close(_ context.Context, _ string, force bool) (bool, error) {
	c.forced = c.forced || force
	return false, nil
}

// A peering that was ending is used again, but its side fails, or waits. When it ends next, the time of the end
// before does not count: nothing is forced.
func TestAnEndBeforeDoesNotCount(t *testing.T) {
	for name, side := range map[string]*closes{"fails": {fails: true}, "waits": {waits: "for room"}} {
		c, err := client.New(kubeapi.New(kubeapi.Options{Types: kinds()}).Config(), client.Options{Scheme: scheme.New()})
		if err != nil {
			t.Fatal(err)
		}
		side.got = map[string]bool{"rome": true}
		p := New(Options{Client: c, Namespace: "default", Market: exchangetest.Open(t, nil, exchange.Options{Self: "milan"}),
			Messages: silent{}, Lending: side, Graces: Graces{Abandon: time.Minute},
			Peers: peers.New(peers.Options{Client: c, Namespace: "default", Events: events.NewFakeRecorder(100),
				Trigger: &kubeobject.Trigger{}, StateChanged: func(string, api.PeeringRole) {}})})
		object := &api.Peering{Spec: api.PeeringSpec{Cluster: "rome", Role: api.RoleConsumer}}
		object.Namespace, object.Name = "default", api.PeeringName("rome", api.RoleConsumer)
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		began := metav1.NewTime(time.Now().Add(-time.Hour))
		object.Status = api.PeeringStatus{State: api.PeeringClosing, Since: &began}
		if err := c.Status().Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		read := func() *api.Peering {
			t.Helper()
			var is api.Peering
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), &is); err != nil {
				t.Fatal(err)
			}
			return &is
		}
		if _, err := p.keep(t.Context(), read()); (err != nil) != side.fails {
			t.Fatal(err)
		}
		side.fails, side.waits = false, ""
		if _, err := p.leave(t.Context(), read()); err != nil {
			t.Fatal(err)
		}
		if is := read(); side.forced || is.Status.Since.Time.Equal(began.Time) {
			t.Errorf("a side that %s: the end is forced: %t, since %s", name, side.forced, is.Status.Since)
		}
	}
}
