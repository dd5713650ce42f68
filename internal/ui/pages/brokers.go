package pages

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// Market is how a cluster reaches the market.
type Market struct {
	Brokers []api.Envelope[api.KnownBroker]
	Failed  *api.Error // why the agent does not say which brokers there are
	// Git is what keeps the object of a broker as it is in Git, by its name. Empty: nothing does.
	Git map[string]string
	// Offers is how many are in the catalog. CopyOf is when the agent made the copy that it searches while no broker
	// answers; zero: the catalog is current.
	Offers    int
	CopyOf    time.Time
	NoCatalog *api.Error
	// Shares and Borrows say which first steps are done. NotDone says that this is on its way.
	Shares, Borrows bool
	NotDone         *api.Error
}

// brokerState returns the state of a broker in a word, and why it is not connected.
func brokerState(b api.KnownBroker) (word string, tone Tone, why string, since time.Time) {
	c := meta.FindStatusCondition(b.Status.Conditions, api.ConditionConnected)
	switch {
	case c == nil:
		return "Joining", Wait, "", time.Time{}
	case b.Spec.Disabled:
		return "Disabled", Off, "This cluster does not talk to it. Reservations that were made there stay.", c.LastTransitionTime.Time
	case c.Status == metav1.ConditionTrue:
		return "Connected", OK, "", c.LastTransitionTime.Time
	}
	tone = Warn
	if c.Reason == "Joining" {
		tone = Wait
	}
	return cmp.Or(c.Reason, "Away"), tone, c.Message, c.LastTransitionTime.Time
}

// joined reports whether a broker is connected or was.
func (m Market) joined() bool {
	for _, b := range m.Brokers {
		if !b.Payload.LastHeard.IsZero() {
			return true
		}
	}
	return false
}

// broker returns a broker by its name; nil if there is none.
func (m Market) broker(name string) *api.Envelope[api.KnownBroker] {
	for i := range m.Brokers {
		if m.Brokers[i].ID == name {
			return &m.Brokers[i]
		}
	}
	return nil
}

// firstStep is one of the first steps of a cluster.
type firstStep struct {
	Name, Text, Makes, Command, Link, Do string
	Done                                 bool
}

// steps returns the first steps.
func (m Market) steps(v View) []firstStep {
	return []firstStep{
		{"Join", "A broker lets clusters find each other. Its operator gives you a token.",
			"Makes: a Broker object in namespace " + v.AgentNamespace + ". Nothing is shown to others yet.",
			"bourse brokers add north --join TOKEN", string(v.open("add", "")), "Add a broker", m.joined()},
		{"Share", "Say what this cluster lends, to whom, and how much at most.",
			"Makes: the SharingPolicy default. Members that it names see the cluster, and may reserve from it.",
			"kubectl apply -f sharingpolicy.yaml", string(v.To("lending")) + "?panel=policy", "Share something", m.Shares},
		{"Borrow", "Say what you need: the best cluster that fits gives it.",
			"Makes: a ResourceRequest in your namespace and, once a provider accepts, a virtual node.",
			"bourse reserve --cpu 4 --memory 8Gi --for 1h", string(v.To("find")), "Find capacity", m.Borrows},
	}
}

// settled reports whether the first steps are done: a provider need not borrow, nor a consumer share.
func (m Market) settled() bool { return m.joined() && (m.Shares || m.Borrows) }
