package federation_test

import (
	"context"
	"flag"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent"
	"github.com/bourse-dev/bourse/internal/agent/settings"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// TestMain runs six tests at once: they mostly wait.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// A broker with the CA that replaces all signatures stands between two clusters that have never met, and nobody
// notices: see "At first contact it can" in THREAT_MODEL.md. It fails if the clusters have met through another broker,
// or if their admins have exchanged their fingerprints. (Messages of the handshake: TestLetters of internal/agent.)
func TestImpostor(t *testing.T) {
	t.Parallel()
	t.Run("at the first contact", func(t *testing.T) {
		s := begin(t, api.TrustTofu)
		i := impose(t, s.ca(), "rome", "milan")
		s.moveTo(i.url)
		if r := s.asks("first"); r.State != api.Reserved || r.Provider != "milan" {
			t.Fatalf("the impostor was noticed: %+v", r)
		}
		fake := map[string]string{"rome": i.poses["rome"].Key.Public().Fingerprint().String(),
			"milan": i.poses["milan"].Key.Public().Fingerprint().String()}
		s.knows(s.rome, "milan", fake["milan"], "FirstUse")
		s.knows(s.milan, "rome", fake["rome"], "FirstUse")
		agreed(t, i)

		// The first honest contact tells.
		s.moveTo(s.honest())
		s.refuses("second")
		s.knows(s.rome, "milan", fake["milan"], string(api.CodeKeyChanged))
	})

	t.Run("at the second contact", func(t *testing.T) {
		s := begin(t, api.TrustTofu)
		if r := s.asks("first"); r.State != api.Reserved {
			t.Fatalf("%+v", r)
		}
		s.knows(s.rome, "milan", s.keys["milan"], "FirstUse")
		s.knows(s.milan, "rome", s.keys["rome"], "FirstUse")
		s.isNoticed(s.keys)
		if r := s.request("first"); r.State != api.Reserved {
			t.Errorf("what was agreed to before is %+v", r)
		}
	})

	t.Run("where keys are pinned", func(t *testing.T) {
		s := begin(t, api.TrustPinned)
		must(s.rome.People.Trust(t.Context(), "milan", s.keys["milan"]))(t)
		must(s.milan.People.Trust(t.Context(), "rome", s.keys["rome"]))(t)
		s.isNoticed(map[string]string{"rome": "", "milan": ""})
	})
}

// stage is rome, which borrows, and milan, which lends. Their agents, with all that they remember,
// go from broker to broker.
type stage struct {
	t           *testing.T
	dir         string
	rome, milan *federation.Member
	keys        map[string]string // the fingerprint of each, as its people read it
	leave       func()
}

// begin lets both join an honest broker, without anything between them.
func begin(t *testing.T, level api.TrustLevel) *stage {
	t.Helper()
	member := func(name string) *federation.Member {
		return &federation.Member{Options: sim.Options{Name: name, Nodes: 1},
			Sharing: &api.Sharing{Terms: api.Terms{Trust: level}, Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}}
	}
	s := &stage{t: t, dir: t.TempDir(), rome: member("rome"), milan: member("milan"), keys: map[string]string{}}
	f := must(federation.Start(context.Background(), s.dir, slog.New(slog.DiscardHandler), s.rome, s.milan))(t)
	s.leaveBy(f.Stop)
	s.meet()
	for name, m := range f.Members {
		s.keys[name] = must(m.People.Status(t.Context()))(t).Fingerprint
	}
	return s
}

// ca is the folder of the honest broker's CA.
func (s *stage) ca() string { return filepath.Join(s.dir, "broker", "ca") }

// honest starts the honest broker again.
func (s *stage) honest() (url string) {
	s.t.Helper()
	s.leave()
	f := must(federation.Start(context.Background(), s.dir, slog.New(slog.DiscardHandler)))(s.t)
	s.t.Cleanup(func() {
		if err := f.Stop(); err != nil {
			s.t.Error(err)
		}
	})
	return f.URL
}

// moveTo lets both agents end, and start again with another broker.
func (s *stage) moveTo(url string) {
	s.t.Helper()
	s.leave()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	for _, m := range []*federation.Member{s.rome, s.milan} {
		go func() {
			ended <- agent.Run(ctx, settings.Options{
				Kubernetes: m.Cluster.API.Config(), Listen: settings.Listen{Socket: m.Socket}, Log: slog.New(slog.DiscardHandler),
				Member: settings.Member{
					ClusterID: m.Name, BrokerURL: url, Identity: store.InDir(filepath.Join(s.dir, m.Name)),
				},
			})
		}()
	}
	s.leaveBy(func() error {
		stop()
		first, second := <-ended, <-ended
		if first == nil {
			first = second
		}
		return first
	})
	s.meet()
}

func (s *stage) leaveBy(stop func() error) {
	s.leave = sync.OnceFunc(func() {
		if err := stop(); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(s.leave)
}

// meet waits until both agents listen and rome sees what milan lends.
func (s *stage) meet() {
	s.t.Helper()
	eventually(s.t, "milan's agent listens", func() bool {
		_,
			err := s.milan.People.Status(s.t.Context())
		return err == nil
	})
	eventually(s.t, "rome sees milan", func() bool {
		c, err := s.rome.People.Cluster(s.t.Context(), "milan")
		return err == nil && c.Payload.Fresh && len(c.Payload.Pools) > 0
	})
}

// asks makes a request of rome's, and waits for what comes of it.
func (s *stage) asks(name string) (r api.ResourceRequestStatus) {
	s.t.Helper()
	made := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	made.Spec.Request = transporttest.Request("1")
	if err := s.rome.Objects.Create(s.t.Context(), made); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, name+" is answered", func() bool {
		r = s.request(name)
		return r.State != "" && r.State != api.Held
	})
	return r
}

func (s *stage) request(name string) api.ResourceRequestStatus {
	s.t.Helper()
	return must(s.rome.People.Request(s.t.Context(), "default", name))(s.t).Payload.Status
}

// refuses demands that rome agrees to nothing with the milan that it is shown.
func (s *stage) refuses(name string) {
	s.t.Helper()
	if r := s.asks(name); r.State != api.Failed && r.State != api.Rejected {
		s.t.Errorf("rome agreed to %+v", r)
	}
}

// knows waits until a cluster shows its known key of another, and whether it trusts it.
func (s *stage) knows(m *federation.Member, peer, fingerprint, reason string) {
	s.t.Helper()
	var p api.Peer
	defer func() {
		if s.t.Failed() {
			s.t.Logf("%s knows of %s: %+v", m.Name, peer, p.Status)
		}
	}()
	eventually(s.t, m.Name+" shows that "+peer+" is "+reason, func() bool {
		err := m.Objects.Get(s.t.Context(), kube.ObjectKey{Namespace: api.Namespace, Name: peer}, &p)
		c := meta.FindStatusCondition(p.Status.Conditions, api.ConditionTrusted)
		return err == nil && p.Status.Fingerprint == fingerprint &&
			c != nil && c.Reason == reason && (c.Status == metav1.ConditionTrue) == (reason == "FirstUse")
	})
}

// isNoticed demands that neither agrees to anything by an impostor, which asks each in the other's
// name, that both say why, and that they go on to know each other by the keys that they have
// pinned.
func (s *stage) isNoticed(pinned map[string]string) {
	s.t.Helper()
	i := impose(s.t, s.ca(), "rome", "milan")
	s.moveTo(i.url)
	s.refuses("another")
	s.knows(s.rome, "milan", pinned["milan"], string(api.CodeKeyChanged))
	had := s.bound()
	// what was signed before, a broker that does not know it is shown
	for _, document := range i.signed("rome", api.DocumentAssignment) {
		var a api.Assignment
		if err := clusterkey.Verify(document.versions["rome"], api.DocumentAssignment, i.real["rome"], &a); err != nil ||
			a.Reservation != had {
			s.t.Errorf("rome signed an assignment of %s, %v", a.Reservation, err)
		}
	}
	if r := i.borrows(); r.State != api.Failed || len(r.Tried) != 1 || r.Tried[0].Reason != api.ReasonKeyChanged {
		s.t.Errorf("what the impostor asked in rome's name is %+v", r)
	}
	s.knows(s.milan, "rome", pinned["rome"], string(api.CodeKeyChanged))
	for _, document := range i.signed("milan", api.DocumentAcceptance) {
		var a api.Acceptance
		if err := clusterkey.Verify(document.versions["milan"], api.DocumentAcceptance, i.real["milan"], &a); err != nil ||
			a.Reservation != had {
			s.t.Errorf("milan accepted %s, %v", a.Reservation, err)
		}
	}
}

// bound is the reservation that rome has of what was agreed before, if there is one.
func (s *stage) bound() string {
	r, err := s.rome.People.Request(s.t.Context(), "default", "first")
	if err != nil {
		return ""
	}
	return r.Payload.Status.Reservation
}

// agreed demands that each has really signed its part, and was shown that the impostor signed the other's.
func agreed(t *testing.T, i *impostor) {
	t.Helper()
	assignments, acceptances := i.signed("rome", api.DocumentAssignment), i.signed("milan", api.DocumentAcceptance)
	if len(assignments) != 1 || len(acceptances) != 1 {
		t.Fatalf("%d assignments, %d acceptances", len(assignments), len(acceptances))
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for by, documents := range map[string]*said{"rome": assignments[0], "milan": acceptances[0]} {
		for reader, document := range documents.versions {
			key := i.poses[by].Key.Public()
			if reader == by {
				key = i.real[by]
			}
			if header, err := clusterkey.Peek(document); err != nil || header.Key != key.Fingerprint() {
				t.Errorf("what %s said and %q read is by %s, %v", by, reader, header.Key, err)
			}
		}
	}
	var a api.Acceptance
	if err := clusterkey.Verify(acceptances[0].versions["milan"],
		api.DocumentAcceptance, i.real["milan"], &a); err != nil ||
		a.Assignment != clusterkey.Digest(assignments[0].versions["milan"]).String() {
		t.Errorf("milan accepted %+v, %v", a, err)
	}
}
