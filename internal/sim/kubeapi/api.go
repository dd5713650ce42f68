package kubeapi

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Options say what a server knows. The zero value serves the built-in types.
type Options struct {
	// Clock tells creation and deletion times; nil means time.Now.
	Clock func() time.Time
	// Seed makes UIDs and generated names repeatable. Clusters that meet must
	// not share one: their kube-system would have the same UID. 0 draws one.
	Seed uint64
	// Types are served beside the built-in ones, and replace them if they
	// have the same group and resource.
	Types []Type
	// History is how many events of each type are kept for watches to resume
	// from, at most (at least half of them); 0 means 1000. What is older is
	// answered with 410 Expired.
	History int
}

// API is one simulated server. All its methods may be called at any time from
// any goroutine; it runs none of its own.
type API struct {
	clock   func() time.Time
	history int
	tables  []*table

	mu       sync.Mutex // guards all below, and what the tables hold
	random   *rand.ChaCha8
	revision uint64 // the one counter behind every resourceVersion
	faults   Faults
	down     bool
	cut      chan struct{} // closed to end the watches that run
}

// New returns a server that holds the namespaces default and kube-system.
func New(o Options) *API {
	a := &API{clock: o.Clock, history: cmp.Or(o.History, 1000), cut: make(chan struct{}), revision: firstRevision}
	if a.clock == nil {
		a.clock = time.Now
	}
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], cmp.Or(o.Seed, rand.Uint64()))
	a.random = rand.NewChaCha8(seed)
	for _, t := range append(builtin(), o.Types...) {
		a.register(t)
	}
	namespaces := a.table(schema.GroupResource{Resource: "namespaces"})
	for _, name := range []string{"default", "kube-system"} {
		if _, err := a.insert(&request{table: namespaces, key: types.NamespacedName{Name: name}},
			namespaces.blank(name)); err != nil {
			panic(err) // these two are ours: nothing about them can be refused
		}
	}
	return a
}

// Config connects clients within this process, without sockets. They speak
// JSON and are not throttled (QPS -1) unless the caller sets it.
func (a *API) Config() *rest.Config {
	return &rest.Config{
		Host:          "http://kubeapi.invalid", // never dialled
		Transport:     a.transport(),
		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
		QPS:           -1,
	}
}

// Handler serves the same API on a real listener. Each caller is an admin.
func (a *API) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, admin) })
}

// Disconnect ends every watch that runs. Clients resume from where they were.
func (a *API) Disconnect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.disconnect()
}

// Down makes the server unreachable (watches end, connections are refused)
// and, with false, reachable again with all that it held.
func (a *API) Down(down bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = down
	if down {
		a.disconnect()
	}
}

func (a *API) disconnect() {
	close(a.cut)
	a.cut = make(chan struct{})
}

// Faults break requests on purpose. Each function is called with the verb as
// RBAC names it (get, list, watch, create, update, patch, delete)
// and the resource as RBAC names it ("pods", "pods/status");
// ns and name are empty where the request has none. An error with a Status
// (apierrors) becomes the answer; any other loses the connection. They run on
// the goroutines of the requests. Discovery is spared.
type Faults struct {
	// Before fails a request that then changes nothing.
	Before func(verb, resource, ns, name string) error
	// After fails a request that was carried out: its answer is lost. It is
	// not called for watch.
	After func(verb, resource, ns, name string) error
}

// Fault installs f in the place of what was installed before.
func (a *API) Fault(f Faults) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults = f
}

// firstRevision is where the counter stands when a server begins; as on a real
// one, a watch from 1 is too old.
const firstRevision = 2

// errLost stands for an answer that never arrives.
var errLost = errors.New("connection lost")
