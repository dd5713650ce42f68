package match

// The filters of clusters without a key of their own. Both parties of a reservation must accept what a broker signs in the
// name of the other.

func ownKey(_ *question, c *candidate) reason {
	if c.card == nil || c.card.Legacy {
		return otherTrust
	}
	return passes
}

func accepted(q *question, c *candidate) reason {
	if c.card.Legacy && !q.terms.TrustsLegacy(q.card) {
		return otherTrust
	}
	return passes
}

func ownsKey(q *question) bool { return !q.card.Legacy }

func accepts(_ *question, c *candidate) reason {
	if !c.Measured.Terms.TrustsLegacy(c.card) {
		return untrusting
	}
	return passes
}
