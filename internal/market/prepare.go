package market

// prepared are the parts of a hold's event that do not depend on the state, encoded.
type prepared struct{ asked, decision []byte }

// Prepare does what can be done of a command before it is decided. It is for the caller's
// goroutine: a market has one owner, whose time is dearer.
func Prepare(c Command) {
	h, ok := c.(*Hold)
	if !ok {
		return
	}
	w := &encoder{b: make([]byte, 0, 1280)}
	w.asked(h.reservation())
	n := len(w.b)
	w.b = append(w.b, '{') // so that no comma comes next
	w.explanation(h.Decision)
	if w.err == nil {
		h.prepared = &prepared{w.b[:n:n], w.b[n+1:]}
	}
}
