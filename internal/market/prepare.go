package market

import "github.com/bourse-dev/bourse/api"

// prepared is what can be made of a hold before it is decided.
type prepared struct {
	// record and decision are to be completed by the one decision that takes them; nil once it has.
	record   *Reservation
	decision *api.Decision
	// asked and explanation are the parts of its event that do not depend on the state, encoded.
	asked, explanation []byte
}

// Prepare does what can be done of a command before it is decided. It is for the caller's
// goroutine: a market has one owner, whose time is dearer.
func Prepare(c Command) {
	h, ok := c.(*Hold)
	if !ok {
		return
	}
	h.prepared = nil
	record, decision := h.draft()
	asked, explanation := &encoder{b: make([]byte, 0, 640)}, &encoder{b: make([]byte, 0, 1024)}
	asked.asked(record)
	explanation.explanation(decision)
	if asked.err == nil && explanation.err == nil {
		h.prepared = &prepared{record, decision, asked.b, explanation.b}
	}
}

// draft is what a decision completes: a record of what is known of it before, and a copy of the explanation.
func (c *Hold) draft() (*Reservation, *api.Decision) {
	if p := c.prepared; p != nil && p.record != nil {
		record, decision := p.record, p.decision
		p.record, p.decision = nil, nil
		return record, decision
	}
	decision := *c.Decision
	return c.reservation(), &decision
}

// why is the completed explanation as it is kept.
func (c *Hold) why(d *api.Decision) Why {
	if c.prepared == nil {
		return Explain(d)
	}
	w := &encoder{b: append(make([]byte, 0, len(c.prepared.explanation)+choiceSize), c.prepared.explanation...)}
	w.choice(d)
	return w.b
}

// choiceSize is how long the end of most explanations is, which is the choice.
const choiceSize = 96
