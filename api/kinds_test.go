package api_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

func TestRefused(t *testing.T) {
	reserved := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: api.ConditionReady, Reason: reason}, {Type: api.ConditionReserved, Reason: reason}}
	}
	for name, c := range map[string]struct {
		status api.ResourceRequestStatus
		want   bool
	}{
		"new":       {},
		"its turn":  {status: api.ResourceRequestStatus{Message: "it waits", Conditions: reserved(api.WaitsForTurn)}},
		"refused":   {status: api.ResourceRequestStatus{Message: "no", Conditions: reserved("Invalid")}, want: true},
		"no reason": {status: api.ResourceRequestStatus{Message: "no"}, want: true},
		"reserved":  {status: api.ResourceRequestStatus{Message: "it runs", State: api.Active}},
	} {
		if got := c.status.Refused(); got != c.want {
			t.Errorf("%s: refused %t, want %t", name, got, c.want)
		}
	}
}
