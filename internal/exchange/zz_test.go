package exchange_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func BenchmarkZ(b *testing.B) {
	req := api.Request{Resources: resources("cpu", "2", "memory", "4Gi"), Duration: &metav1.Duration{Duration: 8 * time.Hour}, Where: `region == "eu"`}
	dec := api.Decision{Considered: 100, Candidates: 90, Eliminated: []api.Elimination{{Filter: "fits", Reason: "TooSmall", Count: 10}}}
	for range 5 {
		dec.Top = append(dec.Top, api.Scored{Cluster: "provider-7", Score: 900_000, Scores: map[string]int64{"headroom": 900_000, "preference": 0}})
	}
	res := market.Reservation{ID: "r-sdkfjhskdjfhskdjfh", State: api.Held, Consumer: "consumer-1", Provider: "provider-1", Pool: "general", Size: market.Amounts{{"cpu", 2000}, {"memory", 4 << 30}},
		Generation: 1, Created: noon, Changed: noon, HeldUntil: noon, Deadline: noon, Until: noon, Key: "key-123", Digest: "0123456789abcdef0123456789abcdef", Next: []string{"provider-2", "provider-3"}}
	for name, v := range map[string]any{"request": &req, "resources": req.Resources, "decision": &dec, "reservation": &res} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			before := cpuTime(b)
			for b.Loop() {
				d, _ := json.Marshal(v)
				n = len(d)
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns")
			b.ReportMetric(float64(n), "bytes")
		})
	}
}
