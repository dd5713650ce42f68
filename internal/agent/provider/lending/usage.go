package lending

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
)

// TakenBack counts deletions of pods, by cause: overuse, overstay.
var TakenBack = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "bourse_agent_pods_taken_back_total",
	Help: "Deletions of consumers' pods here, by cause: they used more than was reserved (overuse), " +
		"or stayed after the graces of what had ended (overstay). A pod that is then killed counts twice.",
}, []string{"cause"})

// Inventory knows what pods request. inventory.Inventory is one.
type Inventory interface {
	// Used returns what the pods of a slice's user request, UsedByNamespace the same by the pods' namespace.
	Used(user string) api.Resources
	UsedByNamespace(user, node string) map[string]api.Resources
	// UseChanged receives after a change.
	UseChanged() <-chan struct{}
	// ChangedOwners returns the users whose pods came or went since it was last called.
	ChangedOwners() []string
}

// UsageOptions say where pods and instructions are.
type UsageOptions struct {
	Client client.Client
	// Reader reads from the API server, not from a cache.
	Reader client.Reader
	// Namespace is that of ProviderInstructions and Peerings.
	Namespace string
	// Market is that of the Ledger. Its clock decides when graces are over.
	Market    *exchange.Exchange
	Inventory Inventory
	// Sharing returns the SharingPolicy that is in force, nil if none is. It names the plain consumers.
	// Default: there are none.
	Sharing func() *api.Sharing
	Graces  grant.Graces
	Events  events.EventRecorder
	// Clock is that of the loop in Run. Default: the machine's.
	Clock clock.Clock
	Log   *slog.Logger
}

// Usage looks at what consumers' pods use of what this cluster lends. [Usage.Show] shows it on each
// ProviderInstruction. [Usage.Run] deletes the pods that exceed what is reserved, the newest first. A
// reservation that ends leaves its pods a grace to go: [Usage.Freed] notifies the gate when no pod is left, and
// deletes pods that stay longer. Start at [Account]: the reservations of one consumer in one pool. Several
// goroutines may use a Usage.
type Usage struct {
	// Grants asks the controller of grants, which watches it, to look at a slice again.
	Grants kubeobject.Trigger

	options UsageOptions
	began   time.Time          // when this agent began to lead, by the market's clock
	stuck   map[string]attempt // by the account's user; only Run uses it
	plain   map[string]steady  // by the user of a plain consumer's slice; only Run uses it

	accounts atomic.Pointer[accounts] // of the newest revision of the Ledger that was looked at; nil: none was

	mu          sync.Mutex
	overstaying map[string]bool // reservations that have ended and whose pods stay too long
	guarded     map[string]bool // plain consumers that are under the admission policies
}

// NewUsage returns a Usage whose graces begin now.
func NewUsage(o UsageOptions) *Usage {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Sharing == nil {
		o.Sharing = func() *api.Sharing { return nil }
	}
	return &Usage{options: o, began: o.Market.Now().Go(), stuck: map[string]attempt{},
		plain: map[string]steady{}, overstaying: map[string]bool{}}
}

// Overstaying returns how many reservations have ended whose pods stay longer than the grace.
func (u *Usage) Overstaying() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.overstaying)
}

// SetGuarded says which plain consumers are under the admission policies. The pods of others stay.
func (u *Usage) SetGuarded(all map[string]bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.guarded = all
}

// IsGuarded reports whether a plain consumer is under the admission policies.
func (u *Usage) IsGuarded(consumer string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.guarded[consumer]
}

// used returns what the pods of an account request.
func (u *Usage) used(user string) amounts.List {
	return amounts.Clamp(u.options.Inventory.Used(user))
}
