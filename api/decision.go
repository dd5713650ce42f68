package api

// Decision is why a request got the provider it got, or none. Its numbers add
// up: Considered = Hidden + the sum of Eliminated + Candidates.
type Decision struct {
	// Considered is how many clusters there were. Hidden is how many of them the asker may
	// not see: of these nothing else is said.
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
	// Parts is into how many equal parts the request was divided: the decision is about one of them, on as many providers. Empty: it
	// is whole.
	Parts int `json:"parts,omitempty"`
	// Chosen is the provider, empty if there is none.
	Chosen string `json:"chosen,omitempty"`
	// Sequence is the advertisement of the chosen provider that was decided from.
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
	// Scores are what each scorer of the strategy says, in their order.
	Scores []Score `json:"scores,omitempty"`
	// Bought is the plan that it would be bought from; absent: from none.
	Bought *Bought `json:"bought,omitempty"`
}

// Bought is what a request with a MaxPrice would buy of a cluster.
type Bought struct {
	// Plan is SELLER/OFFER/PLAN.
	Plan  string `json:"plan"`
	Units int64  `json:"units"`
	// Cost is what that is for the duration that is asked for, rounded to the currency's minor unit ("12.50 EUR"). Empty: it is free.
	Cost string `json:"cost,omitempty"`
}

// Score is what one scorer says of a candidate.
type Score struct {
	Scorer string `json:"scorer"`
	Value  int64  `json:"value"`
}

// Miss is a cluster that nearly qualified and what was missing, in words.
type Miss struct {
	Cluster string `json:"cluster"`
	Filter  string `json:"filter"`
	Message string `json:"message"`
}

// Evaluation is a decision without a reservation, with each cluster that the asker may see.
type Evaluation struct {
	Decision Decision  `json:"decision"`
	Clusters []Verdict `json:"clusters"`
}

// Verdict is what the decision says of one cluster: its score, or the filter that eliminated it and why.
type Verdict struct {
	Cluster string `json:"cluster"`
	Score   int64  `json:"score,omitempty"`
	// Bought is the plan that it would be bought from; absent: from none.
	Bought  *Bought `json:"bought,omitempty"`
	Filter  string  `json:"filter,omitempty"`
	Reason  string  `json:"reason,omitempty"`
	Message string  `json:"message,omitempty"`
}
