package market_test

import (
	"encoding/json"
	"testing"

	"github.com/bourse-dev/bourse/api"
)

func BenchmarkZ(b *testing.B) {
	dec := api.Decision{Considered: 100, Candidates: 90, Eliminated: []api.Elimination{{Filter: "fits", Reason: "TooSmall", Count: 10}}}
	for range 5 {
		dec.Top = append(dec.Top, api.Scored{Cluster: "provider-7", Score: 900_000, Scores: map[string]int64{"headroom": 900_000, "preference": 0}})
	}
	for b.Loop() {
		json.Marshal(&dec)
	}
}
