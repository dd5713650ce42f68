package market

import "github.com/bourse-dev/bourse/api"

// prepared is what can be made of a hold before it is decided.
type prepared struct {
	// record and explanation are to be completed by the one decision that takes them; nil once it has.
	record      *Reservation
	explanation *api.Decision
	// asked and decision are the parts of its event that do not depend on the state, encoded.
	asked, decision []byte
}

// Prepare does what can be done of a command before it is decided. It is for the caller's
// goroutine: a market has one owner, whose time is dearer.
func Prepare(c Command) {
	h, ok := c.(*Hold)
	if !ok {
		return
	}
	h.prepared = nil
	record, explanation := h.draft()
	w := &encoder{b: make([]byte, 0, 1280)}
	w.asked(record)
	n := len(w.b)
	w.b = append(w.b, '{') // so that no comma comes next
	w.explanation(explanation)
	if w.err == nil {
		h.prepared = &prepared{record, explanation, w.b[:n:n], w.b[n+1:]}
	}
}

// draft is what a decision completes: a record of what is known of it before, and a copy of the explanation.
func (c *Hold) draft() (*Reservation, *api.Decision) {
	if p := c.prepared; p != nil && p.record != nil {
		record, explanation := p.record, p.explanation
		p.record, p.explanation = nil, nil
		return record, explanation
	}
	decision := *c.Decision
	return c.reservation(), &decision
}
