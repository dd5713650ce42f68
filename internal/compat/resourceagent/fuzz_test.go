package resourceagent

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
)

// Each body of an agent is refused or measured. It never shares more than the agent has, or than it
// calls available.
func FuzzMeasurement(f *testing.F) {
	f.Add([]byte(`{"clusterID":"c","resources":{"capacity":{"cpu":"8"},"allocatable":{"cpu":"8","gpu":"1"},"allocated":{"cpu":"1"},"available":{"cpu":"-3","gpu":"1"}}}`), "500m")
	f.Add([]byte(`{"resources":{"allocatable":{"cpu":"1e3","memory":"9223372036854775807"},"available":{"memory":"1Ei"}}}`), "1")
	f.Add([]byte(`{"resources":{"allocatable":{"cpu":"0.0000000001"}}}`), "0")
	f.Fuzz(func(t *testing.T, body []byte, counted string) {
		var in advertisementDTO
		if json.Unmarshal(body, &in) != nil {
			return
		}
		had, err := quantitiesDTO{CPU: counted}.amounts("counted", false)
		if err != nil {
			return
		}
		if _, err := amounts.ParseCapacity("counted", had); err != nil {
			return
		}
		m, err := in.measurement(had)
		if err != nil {
			if api.CodeOf(err) != api.CodeInvalid {
				t.Fatal(err)
			}
			return
		}
		measured, err := market.Measure(m)
		if err != nil {
			if api.CodeOf(err) != api.CodeInvalid {
				t.Fatal(err)
			}
			return
		}
		pool := measured.Pools[api.GeneralPool]
		available, _ := in.Resources.Available.amounts("available", true)
		for _, shared := range pool.Shared {
			most := available[corev1.ResourceName(shared.Resource)]
			most.Add(had[corev1.ResourceName(shared.Resource)])
			whole, err := amounts.ParseCapacity("most", api.Resources{corev1.ResourceName(shared.Resource): most})
			if err == nil && shared.Value > whole.Of(shared.Resource) || shared.Value > pool.Allocatable.Of(shared.Resource) {
				t.Fatalf("%d %s are shared, of %d allocatable; it says %s",
					shared.Value, shared.Resource, pool.Allocatable.Of(shared.Resource), most.String())
			}
		}
	})
}
