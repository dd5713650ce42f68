package match_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
)

// What is rounded up and paid for is refused: half a GPU is not one. CPU below a thousandth and bytes
// below one are too little to count.
func TestWholeUnits(t *testing.T) {
	for _, c := range []struct {
		name, amount string
		ok           bool
	}{
		{"nvidia.com/gpu", "500m", false}, {"nvidia.com/gpu", "1.5", false}, {"nvidia.com/gpu", "1", true},
		{"nvidia.com/gpu", "2000m", true}, {"pods", "10500m", false}, {"example.com/fpga", "1n", false},
		{"memory", "100m", false}, {"memory", "1.1Gi", true}, {"ephemeral-storage", "1u", false}, {"storage", "0.3Ki", true},
		{"hugepages-2Mi", "2.5Ki", true}, {"cpu", "0.5", true}, {"cpu", "100u", true},
	} {
		resources := api.Resources{"cpu": resource.MustParse("1")}
		resources[corev1.ResourceName(c.name)] = resource.MustParse(c.amount)
		_, err := match.New().Ask("rome", api.Request{Resources: resources})
		offer := market.CheckOffer(&api.SignedOffer{Protocol: api.Protocol, Seller: "milan", Name: "web", Version: 1,
			Offer: api.OfferSpec{Plans: []api.Plan{{Name: "small", Resources: resources}}}})
		for what, err := range map[string]error{"resources." + c.name: err, "plans.small.resources." + c.name: offer} {
			wrong, ok := errors.AsType[*api.Error](err)
			if c.ok && err != nil || !c.ok && (!ok || wrong.Code != api.CodeInvalid || wrong.Field != what || wrong.Remedy == "") {
				t.Errorf("%s of %s: %v", c.amount, c.name, err)
			}
		}
	}
}
