package answers

import (
	"maps"
	"slices"

	"github.com/bourse-dev/bourse/api"
)

// byAgent is the filter of the clusters that the consumer's own agent passes over. At the broker, the filter excluded
// leaves them out.
const byAgent, excluded = "agent", "exclude"

// withRefused returns an evaluation that says why the consumer's own agent passes over clusters. At the broker it
// excluded them.
func withRefused(e api.Evaluation, refused map[string]error) api.Evaluation {
	counts := map[api.Code]int{}
	for i := range e.Clusters {
		v := &e.Clusters[i]
		if cause := refused[v.Cluster]; cause != nil && v.Filter == excluded {
			v.Filter, v.Reason, v.Message = byAgent, string(api.CodeOf(cause)), api.WithoutCode(cause.Error())
			counts[api.CodeOf(cause)]++
		}
	}
	var eliminated []api.Elimination
	for _, elimination := range e.Decision.Eliminated {
		if elimination.Filter == excluded {
			for _, code := range slices.Sorted(maps.Keys(counts)) {
				elimination.Count -= counts[code]
				eliminated = append(eliminated, api.Elimination{Filter: byAgent, Reason: string(code), Count: counts[code]})
			}
		}
		if elimination.Count > 0 {
			eliminated = append(eliminated, elimination)
		}
	}
	if len(counts) > 0 {
		e.Decision.Eliminated = eliminated
	}
	miss := e.Decision.NearestMiss
	if miss != nil && miss.Filter == excluded && refused[miss.Cluster] != nil {
		rewritten := *miss
		rewritten.Filter, rewritten.Message = byAgent, api.WithoutCode(refused[miss.Cluster].Error())
		e.Decision.NearestMiss = &rewritten
	}
	return e
}
