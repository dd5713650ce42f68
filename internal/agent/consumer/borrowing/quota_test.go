package borrowing

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/market"
)

// A pod that Liqo's quota refuses is a state of its own, with the remedy. Other pods and objects are not.
func TestPodsThatTheQuotaRefuses(t *testing.T) {
	l := bound{Reservation: &market.Reservation{}}
	l.Provider = "milan"
	const refused = `Pod jobs/j3: admission webhook "shadowpod.validate.liqo.io" denied the request: ` +
		`peering cpu quota usage exceeded - free 200m / requested 400m`
	for _, c := range []struct {
		fails  []string
		reason string
	}{
		{[]string{"Secret jobs/token: refused", refused}, api.QuotaUsedUp},
		{[]string{"Secret jobs/quota usage exceeded: refused", "Pod jobs/j3: user is cordoned"}, "FailedReflection"},
	} {
		got := reflectedCondition(offload.Reflection{}, l, c.fails, nil)
		if got.Status != metav1.ConditionFalse || got.Reason != c.reason {
			t.Errorf("%q: %+v", c.fails, got)
		}
		if of := strings.Contains(got.Message, "ttlSecondsAfterFinished"); of != (c.reason == api.QuotaUsedUp) ||
			!strings.Contains(got.Message, "jobs/j3") {
			t.Errorf("%q: %s", c.fails, got.Message)
		}
	}
}
