package peering

import "time"

// recent keeps, per peer, objects of an opening for two seconds. Each message and each event
// continues an opening while a virtual node waits for it, so reading again would only delay it.
// Afterwards, and after a crash, the objects are read again.
type recent[T any] map[string]struct {
	is    T
	until time.Time
}

const recently = 2 * time.Second

func (r *recent[T]) keep(peer string, is T) {
	if *r == nil {
		*r = recent[T]{}
	}
	(*r)[peer] = struct {
		is    T
		until time.Time
	}{is, time.Now().Add(recently)}
}

func (r recent[T]) of(peer string) (is T, known bool) {
	if one := r[peer]; time.Now().Before(one.until) {
		return one.is, true
	}
	delete(r, peer)
	return is, false
}
