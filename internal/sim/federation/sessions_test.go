package federation_test

import (
	"crypto/tls"
	"io"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/identity/pinned"
	"github.com/bourse-dev/bourse/internal/sim/federation"
)

// asker makes a client that asks rome's agent for namespaces or, without any, for the cluster.
func (f *fair) asker(m *federation.Member, namespaces ...string) (*client.Client, *cluster.Asker) {
	f.t.Helper()
	c, a, err := cluster.NewAsker(m.Cluster.API.Config(), namespaces...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = a.Close(f.t.Context()) })
	return c, a
}

// sessions returns how many Sessions and ClusterSessions a cluster has.
func (f *fair) sessions(m *federation.Member) int {
	f.t.Helper()
	var some api.SessionList
	var all api.ClusterSessionList
	if err := m.Objects.List(f.t.Context(), &some); err != nil {
		f.t.Fatal(err)
	}
	if err := m.Objects.List(f.t.Context(), &all); err != nil {
		f.t.Fatal(err)
	}
	return len(some.Items) + len(all.Items)
}

// A user asks by a Session for a namespace, and by a ClusterSession for the cluster. A session cannot act.
func TestQuestionsBySession(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	ids := map[string]string{}
	for _, namespace := range []string{"team", "shop"} {
		made := must(f.rome.People.MakeRequest(t.Context(), api.RequestCreate{Namespace: namespace, Name: "r",
			Request: api.Request{Target: "milan", Resources: webOffer("1").Plans[0].Resources}}))(t)
		f.until(made.ID+" has a reservation", func() bool {
			ids[namespace] = must(f.rome.People.Request(t.Context(), namespace, "r"))(t).Payload.Status.Reservation
			return ids[namespace] != ""
		})
	}
	team, session := f.asker(f.rome, "team")
	if s := must(team.Status(t.Context()))(t); s.Cluster != "rome" || !s.Connected {
		t.Errorf("the agent says %+v", s)
	}
	f.until("rome sees itself and milan", func() bool { return len(must(f.rome.People.Clusters(t.Context()))(t)) == 2 })
	if seen := must(team.Clusters(t.Context()))(t); len(seen) != 2 {
		t.Errorf("it shows %d clusters", len(seen))
	}
	if seen := must(team.Reservations(t.Context()))(t); len(seen) != 1 || seen[0].Payload.Object != "team/r" {
		t.Errorf("it shows the reservations %+v", seen)
	}
	for what, c := range map[string]struct {
		ask  func() error
		want api.Code
	}{
		"its own reservation": {func() error { _, err := team.Reservation(t.Context(), ids["team"]); return err }, ""},
		"another's":           {func() error { _, err := team.Reservation(t.Context(), ids["shop"]); return err }, api.CodeNotFound},
		"problems":            {func() error { _, err := team.Diagnose(t.Context()); return err }, api.CodeForbidden},
		"an end":              {func() error { return team.EndUnknown(t.Context(), ids["team"]) }, api.CodeNotFound},
		"another key":         {func() error { _, err := team.RotateKey(t.Context(), "SHA256:x"); return err }, api.CodeNotFound},
	} {
		if err := c.ask(); (err == nil) != (c.want == "") || err != nil && api.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	both, _ := f.asker(f.rome, "team", "shop")
	if seen := must(both.Reservations(t.Context()))(t); len(seen) != 2 {
		t.Errorf("for two namespaces it shows %+v", seen)
	}
	var shops api.SessionList
	if err := f.rome.Objects.List(t.Context(), &shops, kube.InNamespace("shop")); err != nil || len(shops.Items) != 1 {
		t.Fatalf("shop has %+v, %v", shops.Items, err)
	}
	if err := f.rome.Objects.Delete(t.Context(), &shops.Items[0]); err != nil {
		t.Fatal(err)
	}
	f.until("the agent knows that the session has ended, and the client makes another", func() bool {
		if seen := must(both.Reservations(t.Context()))(t); len(seen) != 2 {
			t.Fatalf("after one of two sessions has ended it shows %+v", seen)
		}
		var now api.SessionList
		err := f.rome.Objects.List(t.Context(), &now, kube.InNamespace("shop"))
		return err == nil && len(now.Items) == 1
	})
	all, _ := f.asker(f.rome)
	if _, err := all.Diagnose(t.Context()); err != nil {
		t.Error(err)
	}
	if n := f.sessions(f.rome); n != 4 {
		t.Errorf("there are %d sessions", n)
	}
	if err := session.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := f.sessions(f.rome); n != 3 {
		t.Errorf("after one was closed there are %d", n)
	}
}

// A user is answered by the next agent without doing anything. It ends the sessions that another one answered.
func TestSessionsOfAnotherAgent(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	before := &api.Session{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "before"},
		Spec: api.SessionSpec{Key: must(pinned.NewKey())(t).Hash()}}
	if err := f.rome.Objects.Create(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	asks, _ := f.asker(f.rome, "team")
	if _, err := asks.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.StopMember("rome")
	f.StartMember("rome")
	if s, err := asks.Status(t.Context()); err != nil || s.Cluster != "rome" {
		t.Errorf("the next agent says %+v, %v", s, err)
	}
	f.until("only the new session is left", func() bool { return f.sessions(f.rome) == 1 })
}

// Who has not the key of a session is refused, and also who has that of one that was deleted.
func TestKeysOfSessions(t *testing.T) {
	t.Parallel()
	f := newFair(t)
	key, other := must(pinned.NewKey())(t), must(pinned.NewKey())(t)
	s := &api.Session{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "s"}, Spec: api.SessionSpec{Key: key.Hash()}}
	if err := f.rome.Objects.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	f.until("the agent answers", func() bool {
		return f.rome.Objects.Get(t.Context(), kube.ObjectKeyFromObject(s), s) == nil && s.Status.ServerKey != ""
	})
	// call returns whether the agent answers a key.
	call := func(k *pinned.Key) bool {
		c, err := tls.Dial("tcp", s.Status.Address, k.ClientTLS(s.Status.ServerKey))
		if err != nil {
			return false
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET "+api.Prefix+"/status HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n"); err != nil {
			return false
		}
		answer, _ := io.ReadAll(c)
		return len(answer) > 12 && string(answer[9:12]) == "200"
	}
	if !call(key) || call(other) {
		t.Error("its own key is refused, or another is answered")
	}
	if err := f.rome.Objects.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	f.until("the key is refused", func() bool { return !call(key) })
}
