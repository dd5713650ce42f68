package exchange_test

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/json"
	testtracker "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/kube"
	"github.com/bourse-dev/bourse/internal/market"
)

// recordLedger makes TestLedgersOfOlderVersions write what this version writes.
var recordLedger = flag.String("record-ledger", "", "write this version's Ledgers as testdata/ledger-NAME-*")

var (
	ledgerKind = schema.GroupVersionKind{Group: "bourse.dev", Version: "v1alpha1", Kind: "Ledger"}
	ledgerKey  = client.ObjectKey{Namespace: "bourse", Name: "ledger"}
)

// gate is the exchange of the agent of milan, which lends, over a Ledger.
type gate struct {
	*running
	clock *clock
	mu    sync.Mutex
	keys  map[string]*clusterkey.Key
	kube  client.WithWatch
	parts int64 // of its Ledger
}

func newLedgers() client.WithWatch {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(ledgerKind, &unstructured.Unstructured{})
	// not the default: it looks at each field
	tracker := testtracker.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	return fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).Build()
}

// agentOptions are those of an agent's Ledger.
func agentOptions(clock *clock) exchange.Options {
	return exchange.Options{Self: "milan", Resume: true, SnapshotEvery: 32, AppendBytes: 256 << 10, Clock: clock}
}

func newGate(t testing.TB) *gate {
	t.Helper()
	g := &gate{clock: newClock(), keys: map[string]*clusterkey.Key{}, kube: newLedgers(), parts: kube.Parts}
	g.start(t)
	return g
}

// start starts the agent, once more if it ran before.
func (g *gate) start(t testing.TB) {
	t.Helper()
	g.opens(t, kube.New(g.kube, ledgerKey, g.parts))
}

// opens starts the agent on a journal, and measures its cluster.
func (g *gate) opens(t testing.TB, j journal.Journal) {
	t.Helper()
	g.running = start(t, j, agentOptions(g.clock))
	m, err := market.Measure(api.Measurement{
		Sequence: api.Sequence{Incarnation: int64(g.clock.Wall().UnixMilli()), Number: 1}, Terms: &api.Terms{},
		Pools: map[string]api.Pool{api.GeneralPool: {Capacity: resources("cpu", "1k"),
			Allocatable: resources("cpu", "1k"), Shared: resources("cpu", "1k")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Observe(context.Background(), "milan", m, true); err != nil {
		t.Fatal(err)
	}
}

func (g *gate) key(cluster string) *clusterkey.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.keys[cluster] == nil {
		key, err := clusterkey.New(rand.Reader)
		if err != nil {
			g.t.Fatal(err)
		}
		g.keys[cluster] = key
	}
	return g.keys[cluster]
}

// pinning is what the gate does when it meets a cluster.
func (g *gate) pinning(cluster string) market.Command {
	public := g.key(cluster).Public()
	return market.Pin{Cluster: cluster, Key: public.String(), Fingerprint: public.Fingerprint().String()}
}

// admission is a consumer's assignment of 1m of CPU and the gate's acceptance, both as they are signed.
func (g *gate) admission(id, consumer string, lasts time.Duration) market.Admit {
	g.t.Helper()
	now := g.clock.Wall()
	a := api.Assignment{
		Protocol: api.Protocol, Reservation: id, Generation: 1, Consumer: consumer, ConsumerKey: g.key(consumer).Public().Fingerprint().String(),
		Provider: "milan", ProviderKey: g.key("milan").Public().Fingerprint().String(), Pool: api.GeneralPool, Slice: market.SliceName(consumer, "milan", api.GeneralPool),
		Resources: resources("cpu",
			"1m"), Until: market.At(now.Add(lasts)).Meta(), Expires: market.At(now.Add(time.Minute)).Meta(),
	}
	size, err := amounts.ParseRequest("resources", a.Resources)
	if err != nil {
		g.t.Fatal(err)
	}
	document, err := g.key(consumer).Sign(api.DocumentAssignment, a)
	if err != nil {
		g.t.Fatal(err)
	}
	expires := market.At(a.Expires.Add(market.SkewGrace))
	acceptance, err := g.key("milan").Sign(api.DocumentAcceptance, api.Acceptance{
		Protocol: api.Protocol, Reservation: id, Generation: 1, Consumer: consumer, Provider: "milan", Assignment: clusterkey.Digest(document).String(), Expires: expires.Meta(),
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return market.Admit{Assignment: a, Size: size, Document: document, Acceptance: acceptance, BindsUntil: expires}
}

// binds has the gate accept reservations, and the broker record it.
func (g *gate) binds(consumer string, lasts time.Duration, ids ...string) {
	g.t.Helper()
	g.all(ids, func(id string) {
		g.must(g.admission(id, consumer, lasts))
		g.must(market.Commit{ID: id, Generation: 1})
	})
}

// all does something for each of many, some at a time. Of thousands more at a time, so that they take as
// many appends as hundreds do.
func (g *gate) all(ids []string, do func(id string)) {
	var group errgroup.Group
	group.SetLimit(max(32, len(ids)/16))
	for _, id := range ids {
		group.Go(func() error { do(id); return nil })
	}
	_ = group.Wait()
}

// frees says of all that is ending that nothing of it is left, as the gate does.
func (g *gate) frees() {
	g.t.Helper()
	var ids []string
	for _, r := range g.in(api.Releasing) {
		ids = append(ids, r.ID)
	}
	g.all(ids, func(id string) { g.must(market.Free{ID: id, Provider: "milan"}) })
}

// compacts waits until a Ledger with little space is compacted.
func (g *gate) compacts() {
	g.t.Helper()
	scarce := func() bool {
		size := g.Size()
		return size.Use() >= exchange.Crowded*3/4 && size.Tail >= size.Snapshot/32
	}
	for begin := time.Now(); scarce(); time.Sleep(time.Millisecond) {
		if g.look(); time.Since(begin) > time.Minute {
			g.t.Fatalf("it is not folded: %+v", g.Size())
		}
	}
}

// settles waits until no snapshot is being written.
func (g *gate) settles() {
	g.t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, running := g.Compacted(); !running {
			return
		}
		if time.Since(begin) > time.Minute {
			g.t.Fatalf("it is not folded: %+v", g.Size())
		}
	}
}

// hasSpace waits until a Ledger whose reservations were forgotten takes in something new, while
// nothing happens but that minutes pass.
func (g *gate) hasSpace() {
	g.t.Helper()
	for begin := time.Now(); g.Size().Use() >= exchange.Crowded*3/4; time.Sleep(time.Millisecond) {
		g.clock.pass(time.Minute, time.Minute)
		if g.look(); time.Since(begin) > time.Minute {
			g.t.Fatalf("it has no space: %+v", g.Size())
		}
	}
}

// takesLong skips a test under -short.
func takesLong(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long")
	}
}

// compactsAll waits until all that has happened is compacted, and returns the size then. A fold
// that began before is not enough: so a consumer binds more, which ends afterwards, until a later
// one is stored.
func (g *gate) compactsAll(consumer, prefix string) journal.Size {
	g.t.Helper()
	var ids []string
	revision := g.View().Revision
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		at, running := g.Compacted()
		if at >= revision {
			break
		}
		if time.Since(begin) > time.Minute {
			g.t.Fatalf("it is not folded: %+v", g.Size())
		}
		if !running {
			next := numbered(prefix, len(ids), len(ids)+16)
			ids = append(ids, next...)
			g.binds(consumer, time.Minute, next...)
		}
	}
	size := g.Size()
	g.all(ids, func(id string) {
		g.must(market.Release{ID: id, By: "milan"})
		g.must(market.Free{ID: id, Provider: "milan"})
	})
	return size
}

// in are the reservations in a state.
func (g *gate) in(state api.State) (all []*market.Reservation) {
	g.t.Helper()
	if err := g.Read(context.Background(), func(s *market.State) {
		for _, r := range s.All() {
			if r.State == state {
				all = append(all, r)
			}
		}
	}); err != nil {
		g.t.Fatal(err)
	}
	return all
}

// count is how many reservations there are, by state.
func (g *gate) count() map[api.State]int {
	count := map[api.State]int{}
	if err := g.Read(context.Background(), func(s *market.State) {
		for _, r := range s.All() {
			count[r.State]++
		}
	}); err != nil {
		g.t.Fatal(err)
	}
	return count
}

func numbered(prefix string, from, to int) (ids []string) {
	for i := from; i < to; i++ {
		ids = append(ids, fmt.Sprintf("%s-%05d", prefix, i))
	}
	return ids
}

// What any version ever wrote must be read for ever, to the same state, and written on. When a
// Ledger looks otherwise, record others; never change those that are there.
func TestLedgersOfOlderVersions(t *testing.T) {
	if *recordLedger != "" {
		writeLedgers(t)
	}
	golden, err := filepath.Glob("testdata/ledger-*.state")
	if err != nil || len(golden) == 0 {
		t.Fatalf("no Ledgers: %v", err)
	}
	for _, path := range golden {
		t.Run(filepath.Base(path), func(t *testing.T) {
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			cluster := newLedgers()
			objects, err := filepath.Glob(strings.TrimSuffix(path, "state") + "*json")
			if err != nil || len(objects) == 0 {
				t.Fatalf("no objects: %v", err)
			}
			for _, object := range objects {
				encoded, err := os.ReadFile(object)
				if err != nil {
					t.Fatal(err)
				}
				ledger := &unstructured.Unstructured{}
				if err := json.Unmarshal(encoded, &ledger.Object); err != nil {
					t.Fatal(err)
				}
				if err := cluster.Create(t.Context(), ledger); err != nil {
					t.Fatal(err)
				}
			}
			g := &gate{clock: newClock(), kube: cluster, keys: map[string]*clusterkey.Key{}}
			g.running = start(t, kube.New(cluster, ledgerKey, kube.Parts), agentOptions(g.clock))
			if got := g.snapshot() + "\n"; got != string(want) {
				t.Errorf("it leads to\n%s\nwant\n%s", got, want)
			}
			g.must(g.pinning("oslo"))
			after := g.snapshot()
			if err := g.stop(); err != nil {
				t.Fatal(err)
			}
			g.running = start(t, kube.New(cluster, ledgerKey, kube.Parts), agentOptions(g.clock))
			if got := g.snapshot(); got != after {
				t.Errorf("written on, it leads to\n%s\nwant\n%s", got, after)
			}
		})
	}
}

// writeLedgers records a Ledger at several moments of its life: new, with a tail only, with a
// snapshot, with both.
func writeLedgers(t *testing.T) {
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	g := newGate(t)
	record := func(moment string) {
		state := g.snapshot()
		if err := g.stop(); err != nil { // its last snapshot is stored then
			t.Fatal(err)
		}
		all := &unstructured.UnstructuredList{}
		all.SetGroupVersionKind(ledgerKind)
		if err := g.kube.List(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		for i, ledger := range all.Items {
			object := map[string]any{"apiVersion": ledger.GetAPIVersion(),
				"kind": ledger.GetKind(), "spec": ledger.Object["spec"],
				"metadata": map[string]any{"namespace": ledger.GetNamespace(), "name": ledger.GetName()}}
			encoded, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, fmt.Sprintf("ledger-%s-%s.%d.json", *recordLedger, moment, i), append(encoded, '\n'))
		}
		writeFile(t, fmt.Sprintf("ledger-%s-%s.state", *recordLedger, moment), []byte(state+"\n"))
		g.start(t)
	}
	record("new")
	g.must(g.pinning("rome"))
	g.must(g.pinning("paris"))
	g.binds("rome", 8*time.Hour, numbered("early", 0, 3)...)
	record("tail")
	g.must(market.Note{Reservation: &market.Reservation{
		ID: "own", Consumer: "milan", Provider: "rome", State: api.Held, Pool: api.GeneralPool, Size: amounts.List{{Resource: "cpu", Value: 1000}}, Generation: 1,
		Created: noon, Until: noon + 3_600_000, HeldUntil: noon +
			60_000, Assignment: "document", Object: &market.Object{Namespace: "demo", Name: "own", UID: "uid"},
	}})
	g.must(market.Release{ID: "early-00000", By: "milan", Reason: api.ReasonReleased, Document: "end"})
	g.frees()
	g.clock.pass(2*time.Hour, 2*time.Hour) // it is forgotten, but spent
	g.look()
	g.binds("paris", 8*time.Hour, numbered("late", 0, 14)...)
	g.must(g.admission("held", "rome", time.Hour))
	g.must(market.Release{ID: "late-00003", By: "milan", Reason: api.ReasonRevokedByProvider})
	record("both")
	g.binds("paris", 8*time.Hour, numbered("more", 0, 40)...)
	record("folded")
}

func writeFile(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join("testdata", name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}
