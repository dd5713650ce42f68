package instruction

import (
	"maps"
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// Use is what a reservation is granted and uses, and its account.
type Use struct {
	// Granted and Used are the reservation's. Used is nil if it is not known whose the pods of the account are.
	Granted, Used api.Resources
	// Account is what the SharedBy reservations of the account are granted and use together.
	Account  api.AccountSum
	SharedBy int
	// Namespaces is what pods use, by their namespace.
	Namespaces map[string]api.Resources
	// Naming returns how many of the reservations name a namespace, and whether the shown one does.
	Naming func(namespace string) (all int, this bool)
}

// Status returns what the use looks like in the status of a reservation of a size: only the resources that it
// reserves. It names no namespace that the reservation does not, and sums them up.
func (u Use) Status(size amounts.List) (s api.InstructionStatus) {
	only := func(r api.Resources) api.Resources {
		out := api.Resources{}
		for name := range size.Resources() {
			out[name] = r[name] // 0 if r lacks it
		}
		return out
	}
	s.Granted, s.SharedBy = only(u.Granted), u.SharedBy
	if u.Used != nil {
		s.Used = only(u.Used)
	}
	s.Account = &api.AccountSum{Granted: only(u.Account.Granted), Used: only(u.Account.Used)}
	others := amounts.List{}
	for _, name := range slices.Sorted(maps.Keys(u.Namespaces)) {
		all, this := u.Naming(name)
		if !this {
			others = others.Plus(amounts.Clamp(only(u.Namespaces[name])))
			continue
		}
		s.Namespaces = append(s.Namespaces, api.NamespaceUse{Name: name, Used: only(u.Namespaces[name]), Shared: all > 1})
	}
	if others.Positive() {
		s.Others = only(others.Resources())
	}
	return s
}

// Split divides an amount by sizes: each gets at most its size of what those before it left.
func Split(amount api.Resources, sizes []amounts.List) (parts []api.Resources) {
	rest := maps.Clone(amount)
	for _, size := range sizes {
		part := size.Resources()
		for name, most := range part {
			left := rest[name].DeepCopy()
			if left.Cmp(most) < 0 {
				part[name] = left.DeepCopy()
			}
			if rest != nil {
				left.Sub(part[name])
				rest[name] = left
			}
		}
		parts = append(parts, part)
	}
	return parts
}
