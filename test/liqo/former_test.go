package liqo

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqoprotocol"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// A federation of a former release is upgraded in steps: first the agent of rome, then the broker. That release does not
// know the field of cards that says what a Liqo exchanges. After each step, rome and milan reserve at each other and
// peer. FORMER is a commit of the release.
func TestAFormerRelease(t *testing.T) {
	commit := os.Getenv("FORMER")
	if commit == "" {
		t.Skip("builds a former release: make test-more")
	}
	w := startFormer(t, commit)
	today, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	w.Binary = today

	w.upgrade(t, w.rome)
	w.reserveBothWays(t, "broker")
	w.Broker.Kill()
	if err := errors.Join(w.StartBroker(t.Context()), w.rome.AwaitConnected(t.Context()), w.milan.AwaitConnected(t.Context())); err != nil {
		t.Fatal(err)
	}
	w.reserveBothWays(t, "agent")
	for _, m := range w.Members {
		listed, err := w.Operator.Cluster(t.Context(), m.Name)
		if err != nil {
			t.Fatal(err)
		}
		p := listed.Payload.Properties
		if p.Liqo == "" || p.LiqoProtocol != nil || liqoprotocol.Compare(liqoprotocol.Default, liqoprotocol.Of(&p)) != "" {
			t.Errorf("the card of %s has Liqo %q, which exchanges %q", m.Name, p.Liqo, p.LiqoProtocol)
		}
	}
}

// startFormer starts rome and milan with the program, the CRDs and the policies of a commit.
func startFormer(t *testing.T, commit string) *world {
	t.Helper()
	former, source, err := federation.BuildFormer(t.Context(), commit, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{rome: member("rome", "it"), milan: member("milan", "it")}
	t.Cleanup(func() {
		if err := w.stop(!t.Failed()); err != nil {
			t.Error(err)
		}
	})
	if w.lab, err = lab.Start(t.Context(), lab.Options{Progress: os.Stderr, Keep: true}); err != nil {
		t.Fatal(err)
	}
	w.Federation, err = federation.Start(t.Context(), federation.Options{Lab: w.lab, Binary: former, Source: source,
		Progress: os.Stderr, Members: []*federation.Member{w.rome, w.milan}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// upgrade installs today's CRDs and policies in a cluster, and starts its agent with today's program.
func (w *world) upgrade(t *testing.T, m *federation.Member) {
	t.Helper()
	source, err := federation.Source()
	if err != nil {
		t.Fatal(err)
	}
	policies, err := os.ReadFile(filepath.Join(source, "config/liqo/policies.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	m.Agent(0).Kill()
	err = errors.Join(m.Cluster.ApplyFS(t.Context(), os.DirFS(filepath.Join(source, "config/crd"))),
		m.Cluster.Apply(t.Context(), policies))
	if err == nil {
		_, err = m.StartAgent(0)
	}
	if err = errors.Join(err, m.AwaitConnected(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// reserveBothWays reserves in rome at milan and the other way, until both are peered, and ends both.
func (w *world) reserveBothWays(t *testing.T, former string) {
	t.Helper()
	var made []*asked
	for _, consumer := range w.Members {
		provider := w.rome
		if consumer == w.rome {
			provider = w.milan
		}
		made = append(made, w.ask(t, consumer, provider, "former-"+former+"-"+consumer.Name, amounts("1", "1Gi")))
	}
	for _, a := range made {
		a.becomes(api.Active)
	}
	for _, a := range made {
		a.release()
	}
	w.nothingLeft(t, w.rome, w.milan)
}
