package cli

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// bourse vnp why names what is wrong, the pods that do not count, and the providers.
func TestExplainsAVirtualNodePool(t *testing.T) {
	var out bytes.Buffer
	sh := &shell{out: &out}
	p := virtualNodePool{ID: "burst"}
	p.Payload.Status = api.VirtualNodePoolStatus{
		CPU: "2/4/20", InUse: 1,
		Conditions: []metav1.Condition{
			{Type: api.ConditionReady, Status: metav1.ConditionFalse, Reason: "Max", Message: "max leaves no room for 3 more pods"},
			{Type: api.ConditionExtended, Status: metav1.ConditionTrue, Reason: "Extended"},
			{Type: api.ConditionAllNotReady, Status: metav1.ConditionFalse, Reason: "SomeReady"},
			{Type: api.ConditionPodsComply, Status: metav1.ConditionFalse, Reason: "WouldBeRefused", Message: "milan: so it is"},
		},
		Pending: api.PendingPods{Counted: 3, Not: []api.UncountedPods{
			{Reason: "NotAllowed", Count: 2, Example: "team/web", Message: "its node selector does not allow the virtual nodes"},
		}},
		Providers: []api.PoolProvider{{Name: "milan", State: "Ready", Request: "burst-abcde",
			Reserved: api.Resources{"cpu": resource.MustParse("4")}}},
	}
	if err := sh.explainVNP(&p); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"burst: cpu 2/4/20 (used/reserved/max) at 1 provider\n",
		"PodsComply: False, WouldBeRefused: milan: so it is\n",
		"Ready: False, Max: max leaves no room for 3 more pods\n", "pending pods that count: 3\n",
		"pending pods that do not count: 2 (NotAllowed), such as team/web: its node selector", "milan", "burst-abcde",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "AllNotReady") || strings.Contains(out.String(), "Extended") {
		t.Errorf("it names what is right:\n%s", out.String())
	}
}
