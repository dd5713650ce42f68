package requests

import (
	"fmt"
	"strings"

	"github.com/bourse-dev/bourse/api"
)

// explain returns a sentence that says why no cluster qualified. kubectl shows it.
func explain(d *api.Decision) string {
	parts := []string{fmt.Sprintf("%d considered", d.Considered)}
	if d.Parts > 1 {
		parts = append(parts, fmt.Sprintf("%d with room for one of %d equal parts", d.Candidates, d.Parts))
	}
	if d.Hidden > 0 {
		parts = append(parts, fmt.Sprintf("%d hidden", d.Hidden))
	}
	for _, e := range d.Eliminated {
		parts = append(parts, fmt.Sprintf("%d eliminated by %s", e.Count, e.Filter))
	}
	s := strings.Join(parts, ", ")
	if m := d.NearestMiss; m != nil {
		s += fmt.Sprintf("; nearest miss %s, by %s: %s", m.Cluster, m.Filter, m.Message)
	}
	return s
}
