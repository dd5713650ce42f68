package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// quiet is how long nothing happens. The agents advertise three times meanwhile, to the broker.
const quiet = 10 * time.Second

// When nothing changes, an agent lists nothing and writes nothing but the lease of its leader. It
// reads one object, its Ledger, as often as it advertises.
func TestIdleMeansIdle(t *testing.T) {
	w := start(t)
	for _, m := range []*federation.Member{w.rome, w.milan, w.paris} {
		eventually(t, "the agent of "+m.Name+" is idle", func(context.Context) error {
			all := answers(t, m)
			renewed := slices.ContainsFunc(all, func(a answer) bool { return recent(a) && lease(a) && a.Verb == "update" })
			if elects := slices.Contains(m.AgentFlags, "--leader-elect"); elects != renewed {
				return fmt.Errorf("its leader renewed its lease: %v, want %v", renewed, elects)
			}
			looks := 0
			busy := slices.DeleteFunc(all, func(a answer) bool {
				look := recent(a) && a.Verb == "get" && a.Object.Resource == "ledgers"
				if look {
					looks++
				}
				return look || !recent(a) || lease(a) || a.Verb == "watch"
			})
			if most := int(quiet/interval) + 1; looks == 0 || looks > most {
				return fmt.Errorf("in the last %s it looked %d times at its Ledger, 1 to %d are due", quiet, looks, most)
			}
			if len(busy) > 0 {
				return fmt.Errorf("in the last %s it made %d requests such as %s", quiet, len(busy), busy[len(busy)-1])
			}
			return nil
		})
		if c, err := w.Operator.Cluster(t.Context(), m.Name); err != nil || !c.Payload.Fresh {
			t.Errorf("the broker takes %s for silent (%v)", m.Name, err)
		}
	}
}

func recent(a answer) bool { return time.Since(a.Received) < quiet }

// lease says whether a request is part of leading, or of trying to.
func lease(a answer) bool { return a.Object.Resource == "leases" }
