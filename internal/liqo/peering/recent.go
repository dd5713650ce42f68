package peering

import "time"

// recent is what was just made, or read, of an opening, by its peer. An opening goes on at each message and each event, and a node waits for
// it: what it has is not read again for a moment, and after that as after a crash.
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
