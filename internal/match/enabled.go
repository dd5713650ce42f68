package match

// A consumer may choose among the providers ([market.Enable]): then it is served by those, and by nobody else.

func allEnabled(q *question) bool { return q.member == nil || q.member.Enabled == nil }

func enabled(q *question, c *candidate) reason {
	if !q.member.Enables(c.Cluster) {
		return notEnabled
	}
	return passes
}
