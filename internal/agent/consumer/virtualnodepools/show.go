package virtualnodepools

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// growing is the reason for which a pool is not Ready while it becomes larger: that is no fault.
const growing = "Growing"

// quiet are the messages of conditions that have nothing else to say, by reason.
var quiet = map[string]string{
	"DemandMet":                 "what its pods need is reserved",
	growing:                     "more is being reserved",
	"NotLimited":                "all demand is served",
	"Extended":                  "each reservation lasts as long as the template says",
	"AsTheTemplate":             "each provider is as the template says",
	"CutOff":                    "most virtual nodes are not Ready",
	"SomeReady":                 "the virtual nodes are Ready, or there are none",
	"NoVolumes":                 "no volume keeps a provider that should leave",
	api.ConditionNamespaceTaken: "an older VirtualNodePool has some of its namespaces",
	"NotTaken":                  "no older VirtualNodePool has its namespaces",
	"NotFull":                   "each provider maps all its namespaces",
	"Offloaded":                 "all its namespaces are offloaded",
}

// showEvents emits an Event for each condition that became another one or is gone, and for each that begins with a
// problem.
func (c *Controller) showEvents(pool *api.VirtualNodePool, before []metav1.Condition) {
	for _, condition := range pool.Status.Conditions {
		was, wrong := meta.FindStatusCondition(before, condition.Type), isWrong(condition)
		same := was != nil && was.Status == condition.Status && was.Reason == condition.Reason &&
			// it says how much time is left
			(!wrong || condition.Type != api.ConditionExtended || was.Message == condition.Message)
		if same || was == nil && !wrong {
			continue
		}
		kind := corev1.EventTypeNormal
		if wrong {
			kind = corev1.EventTypeWarning
		}
		c.options.Events.Eventf(pool, nil, kind, condition.Type, "Plan", "%s: %s", condition.Reason, condition.Message)
	}
	for _, was := range before {
		if meta.FindStatusCondition(pool.Status.Conditions, was.Type) == nil {
			c.options.Events.Eventf(pool, nil, corev1.EventTypeNormal, was.Type, "Plan", "%s: at no provider any more",
				was.Reason)
		}
	}
}

// isWrong reports whether a condition of a pool says that something is wrong. A pool that grows is not.
func isWrong(condition metav1.Condition) bool {
	begun := condition.Reason == growing || condition.Reason == vnp.WaitsForReservations &&
		condition.Type != api.ConditionGranted
	return !begun && api.IsFaultOfPool(condition)
}

// showStep emits an Event for a step that changes what is reserved at a provider.
func (c *Controller) showStep(pool *api.VirtualNodePool, provider, reason, text string) {
	c.options.Events.Eventf(pool, nil, corev1.EventTypeNormal, reason, "Reserve", "%s %s", provider, text)
}

// sizeText returns amounts as users write them: "cpu=4 memory=16Gi".
func sizeText(size amounts.List) string {
	var texts []string
	for _, amount := range size {
		q := amount.Quantity()
		texts = append(texts, amount.Resource+"="+q.String())
	}
	return strings.Join(texts, " ")
}
