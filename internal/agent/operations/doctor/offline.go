package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/market"
)

// Offline says what users can and cannot do while no broker answers.
type Offline struct {
	Cluster  string
	Ledger   *exchange.Exchange
	Sessions interface {
		AllLost(time.Duration) bool
		// HasNoBroker reports whether the agent was started without a broker, and joined none.
		HasNoBroker() bool
	}
	// Sharing is the SharingPolicy in force, nil if there is none.
	Sharing func() *api.Sharing
	// Copy is the copy of the catalog.
	Copy interface{ Size() (int, time.Time) }
	// Connector is the URL of this cluster's connector. Empty: it has none.
	Connector string
	Clock     clock.PassiveClock
}

// Find looks. There is nothing to say while a broker answers, or where an admin chose to have none.
func (c Offline) Find(ctx context.Context) ([]api.Problem, error) {
	if c.Sessions.HasNoBroker() || !c.Sessions.AllLost(0) {
		return nil, nil
	}
	// bound reservations by provider: with a known connector, and without
	reached, cut := map[string]int{}, map[string]int{}
	var sellers []string
	err := c.Ledger.Read(ctx, func(s *market.State) {
		for _, m := range s.Members() {
			if m.ConnectorURL() != "" && m.Cluster != c.Cluster {
				sellers = append(sellers, m.Cluster)
			}
		}
		for _, r := range s.Of(c.Cluster, 0) {
			switch {
			case !r.Bound() || r.Consumer != c.Cluster:
			case slices.Contains(sellers, r.Provider):
				reached[r.Provider]++
			default:
				cut[r.Provider]++
			}
		}
	})
	if err != nil {
		return nil, err
	}
	cannot := []string{"reserve without a plan (bourse reserve)",
		"buy from sellers whose connector is not known here", "peer with clusters that have no connector"}
	if len(cut) > 0 {
		cannot = append(cannot,
			"extend, resize or end at once reservations on "+counted(cut)+": no connector of theirs is known here")
	}
	can := []string{"existing reservations stay, and end at their time"}
	if len(sellers) > 0 {
		slices.Sort(sellers)
		can = append(can, "bourse buy works with "+firstFew(sellers)+" if their connectors answer")
	}
	if len(reached) > 0 {
		can = append(can, "you can extend, resize and release reservations on "+counted(reached))
	}
	if c.Sharing() != nil {
		if c.Connector != "" {
			can = append(can, "clusters that know this one can buy from it at "+c.Connector)
		} else {
			cannot = append(cannot, "sell: this cluster has no connector (--connector-listen)")
		}
	}
	if offers, asOf := c.Copy.Size(); offers > 0 {
		can = append(can, fmt.Sprintf("bourse catalog shows %d offers as they were %s", offers, ago(c.Clock, asOf)))
	}
	remedy := "wait for a broker, or join another: bourse brokers add"
	return []api.Problem{
		health.WithoutBroker.Of("", remedy, "you cannot: %s", strings.Join(cannot, "; ")),
		health.GoesOn.Of("", "", "%s", strings.Join(can, "; ")),
	}, nil
}

// counted are clusters, and how many reservations there are with each.
func counted(of map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, fmt.Sprintf("%s (%d)", name, of[name]))
	}
	return firstFew(out)
}

// firstFew are the first few of many.
func firstFew(names []string) string {
	const few = 8
	if len(names) > few {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
	}
	return strings.Join(names, ", ")
}
