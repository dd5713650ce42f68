package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bourse-dev/bourse/api"
)

// Caps says what a member's own bounds are: "5 reservations, 64 cpu". Empty: it has none.
func Caps(c *api.Caps) string {
	if c == nil {
		return ""
	}
	var all []string
	if c.Reservations > 0 {
		all = append(all, fmt.Sprintf("%d reservations", c.Reservations))
	}
	if c.Pending > 0 {
		all = append(all, fmt.Sprintf("%d pending", c.Pending))
	}
	if c.Priority != 0 {
		all = append(all, fmt.Sprintf("priority %d", c.Priority))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Resources)) {
		q := c.Resources[name]
		all = append(all, q.String()+" "+string(name))
	}
	return strings.Join(all, ", ")
}
