package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/market"
)

// meanwhile is what people can and cannot do while no broker is reached. Nil while one is.
func (d *doctor) meanwhile(ctx context.Context) ([]api.Problem, error) {
	if !d.sessions.AllLost(0) {
		return nil, nil
	}
	reached, cut := map[string]int{}, map[string]int{} // with whom something is bound, and how often: those with a connector that is known, and the others
	var sellers []string
	err := d.market.Read(ctx, func(s *market.State) {
		for _, m := range s.Members() {
			if m.Connector != "" && m.Cluster != d.cluster {
				sellers = append(sellers, m.Cluster)
			}
		}
		for _, r := range s.Of(d.cluster, 0) {
			switch {
			case !r.Bound() || r.Consumer != d.cluster:
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
	cannot := []string{"reserve without a plan (bourse reserve)", "buy from sellers whose connector is not known here", "peer with clusters that have no connector"}
	if len(cut) > 0 {
		cannot = append(cannot, "extend, resize or end at once reservations on "+counted(cut)+": no connector of theirs is known here")
	}
	can := []string{"existing reservations stay, and end at their time"}
	if len(sellers) > 0 {
		slices.Sort(sellers)
		can = append(can, "bourse buy works with "+some(sellers)+" if their connectors answer")
	}
	if len(reached) > 0 {
		can = append(can, "you can extend, resize and release reservations on "+counted(reached))
	}
	if d.sharing.Sharing() != nil {
		if d.connector != "" {
			can = append(can, "clusters that know this one can buy from it at "+d.connector)
		} else {
			cannot = append(cannot, "sell: this cluster has no connector (--connector-listen)")
		}
	}
	if offers, asOf := d.catalogs.Size(); offers > 0 {
		can = append(can, fmt.Sprintf("bourse catalog shows %d offers as they were %s", offers, ago(asOf)))
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
	return some(out)
}

// some are the first few of many.
func some(names []string) string {
	const few = 8
	if len(names) > few {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
	}
	return strings.Join(names, ", ")
}

// ofOthers looks at the brokers besides the main one.
func (d *doctor) ofOthers(ctx context.Context) (found []api.Problem, err error) {
	known, err := d.brokers.List(ctx)
	for _, b := range known {
		c := meta.FindStatusCondition(b.Payload.Status.Conditions, api.ConditionConnected)
		if b.ID == api.MainBroker || c.Status == metav1.ConditionTrue || b.Payload.Spec.Disabled {
			continue
		}
		remedy := "check that it runs; or leave it: bourse brokers remove " + b.ID
		if c.Reason == "NotJoined" {
			remedy = "ask its operator for a token: bourse brokers add " + b.ID + " --join TOKEN"
		}
		found = append(found, health.BrokerUnreachable.Of("broker "+b.ID+" "+b.Payload.Status.URL, remedy, "%s; last heard %s", c.Message, ago(b.Payload.LastHeard.Time)))
	}
	return found, err
}
