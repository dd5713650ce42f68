package match

import "slices"

// A namespace that has volumes at a provider stays with it: pods elsewhere would not find them.

func noVolumes(q *question) bool { return len(q.Request.StickTo) == 0 }

func hasData(q *question, c *candidate) reason {
	if !slices.Contains(q.Request.StickTo, c.Cluster) {
		return noData
	}
	return passes
}
