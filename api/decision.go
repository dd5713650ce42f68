package api

// Decision says why a request got its provider, or none. Its numbers add up: Considered = Hidden +
// the sum of Eliminated + Candidates.
type Decision struct {
	// Considered is the number of clusters. Hidden is how many of them the consumer may not see.
	// The decision says nothing else about those.
	Considered int `json:"considered"`
	Hidden     int `json:"hidden,omitempty"`
	// Eliminated counts, in the order of the filters, the clusters that each one removed.
	Eliminated []Elimination `json:"eliminated,omitempty"`
	// Candidates is how many clusters passed every filter.
	Candidates int `json:"candidates"`
	// Top are the best candidates, at most five, best first.
	Top []Scored `json:"top,omitempty"`
	// NearestMiss is the eliminated cluster that came closest.
	NearestMiss *Miss `json:"nearestMiss,omitempty"`
	// Parts is in how many equal parts the request was tried last. The decision is about one part, and
	// each part needs another provider. Empty: it is about the whole.
	Parts int `json:"parts,omitempty"`
	// Chosen is the provider, empty if there is none, or too few for all parts.
	Chosen string `json:"chosen,omitempty"`
	// Sequence is the advertisement of the chosen provider on which the decision is based.
	Sequence Sequence `json:"sequence,omitzero"`
}

// Elimination is how many clusters one filter removed, and for what reason.
type Elimination struct {
	Filter string `json:"filter"`
	Reason string `json:"reason"`
	Count  int    `json:"count"`
}

// Scored is one candidate. Scores are parts per million, higher is better; Score is their weighted mean.
type Scored struct {
	Cluster string `json:"cluster"`
	Score   int64  `json:"score"`
	// Scores are the results of the strategy's scorers, in their order.
	Scores []Score `json:"scores,omitempty"`
	// Bought is the plan of the purchase. Absent: no purchase.
	Bought *Bought `json:"bought,omitempty"`
}

// Bought is the purchase that a request with a MaxPrice would make at a cluster.
type Bought struct {
	// Plan is SELLER/OFFER/PLAN.
	Plan  string `json:"plan"`
	Units int64  `json:"units"`
	// Cost is the cost for the requested duration, rounded to the currency's minor unit ("12.50
	// EUR"). Empty: it is free.
	Cost string `json:"cost,omitempty"`
}

// Score is the result of one scorer for a candidate.
type Score struct {
	Scorer string `json:"scorer"`
	Value  int64  `json:"value"`
}

// Miss is a cluster that nearly qualified, with the filter that eliminated it and a message.
type Miss struct {
	Cluster string `json:"cluster"`
	Filter  string `json:"filter"`
	Message string `json:"message"`
}

// Evaluation is a decision without a reservation, with each cluster that the consumer may see.
type Evaluation struct {
	Decision Decision  `json:"decision"`
	Clusters []Verdict `json:"clusters"`
	// Fits is how much of the request fits where. It comes instead of Clusters if it is asked for.
	Fits *Fits `json:"fits,omitempty"`
}

// Fitting asks how much of a request fits where, instead of where all of it fits.
type Fitting struct {
	// Fits is the largest number of clusters in the answer, at most 8. 0: it is not asked.
	Fits int32 `json:"fits,omitempty" minimum:"0" maximum:"8"`
	// Pods are shapes of pods to count: what one pod requests. At most 8.
	Pods []Resources `json:"pods,omitempty" maxItems:"8"`
}

// EvaluationCreate is the body that asks for an evaluation.
type EvaluationCreate struct {
	Request Request `json:"request"`
	Fitting
}

// Fits is how much of a request fits where.
type Fits struct {
	// Sum is what all clusters together can serve that pass every filter. Each counts at most for
	// the whole request.
	Sum Resources `json:"sum,omitempty"`
	// Qualified is the number of these clusters.
	Qualified int `json:"qualified"`
	// Clusters are the best of them, best first.
	Clusters []Fit `json:"clusters,omitempty"`
}

// Fit is how much of a request one cluster can serve now.
type Fit struct {
	Cluster string `json:"cluster"`
	// Score is in parts per million, higher is better.
	Score     int64     `json:"score"`
	Resources Resources `json:"resources"`
	// Pods are, for each shape that was asked about, how many pods have room on the cluster's
	// nodes, within Resources. A hub shows no nodes: there only Resources limit them.
	Pods []int64 `json:"pods,omitempty"`
	// Bought is the plan of the purchase. Absent: no purchase.
	Bought *Bought `json:"bought,omitempty"`
}

// Verdict is the result for one cluster: its score, or the filter that eliminated it and why.
type Verdict struct {
	Cluster string `json:"cluster"`
	Score   int64  `json:"score,omitempty"`
	// Bought is the plan of the purchase. Absent: no purchase.
	Bought  *Bought `json:"bought,omitempty"`
	Filter  string  `json:"filter,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	Message string  `json:"message,omitempty"`
}
