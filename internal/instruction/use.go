package instruction

import (
	"maps"
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// Use is what an account is granted and uses, and how many reservations share it.
type Use struct {
	Granted, Used api.Resources
	// SharedBy is how many reservations the account has.
	SharedBy int
	// Namespaces is what pods use, by their namespace.
	Namespaces map[string]api.Resources
	// Naming returns how many of the reservations name a namespace, and whether the shown one does.
	Naming func(namespace string) (all int, this bool)
}

// Status returns what the use looks like in the status of a reservation of a size: only the resources that it
// reserves, and without the namespace of another reservation.
func (u Use) Status(size market.Amounts) (s api.InstructionStatus) {
	only := func(r api.Resources) api.Resources {
		out := api.Resources{}
		for name := range size.Resources() {
			out[name] = r[name] // 0 if r lacks it
		}
		return out
	}
	s.Granted, s.Used, s.SharedBy = only(u.Granted), only(u.Used), u.SharedBy
	for _, name := range slices.Sorted(maps.Keys(u.Namespaces)) {
		all, this := u.Naming(name)
		if all == 1 && !this {
			continue
		}
		s.Namespaces = append(s.Namespaces, api.NamespaceUse{Name: name, Used: only(u.Namespaces[name]), Shared: all != 1})
	}
	return s
}
