package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/provider/sharing"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// refusedPolicy is a SharingPolicy that is not in force, or is refused.
type refusedPolicy struct {
	invalid  error
	refusals sharing.Refusals
}

func (p refusedPolicy) Sharing() *api.Sharing      { return nil }
func (p refusedPolicy) UnknownBrokers() []string   { return nil }
func (p refusedPolicy) Invalid() error             { return p.invalid }
func (p refusedPolicy) Refusals() sharing.Refusals { return p.refusals }

// The doctor says why a policy is not in force, and what a broker refuses, each with its remedy.
func TestDoctorSeesARefusedPolicy(t *testing.T) {
	bad := api.Invalid("labels", "it cannot be shown").Fix("use printable characters")
	for name, c := range map[string]struct {
		policy refusedPolicy
		want   health.Kind
		remedy string
	}{
		"not valid": {refusedPolicy{invalid: bad}, health.PolicyInvalid, bad.Remedy},
		"refused":   {refusedPolicy{refusals: sharing.Refusals{"main": bad}}, health.AdvertisementRefused, bad.Remedy},
		"without a remedy": {refusedPolicy{refusals: sharing.Refusals{"main": errors.New("no")}},
			health.AdvertisementRefused, "mend what the message names"},
	} {
		found := findIn(t, Sharing{Cluster: "milan", Policy: c.policy}.Find)
		if len(found) == 0 || found[0].Code != c.want.Code || found[0].Remedy != c.remedy {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// otherAgent is an agent that is recorded instead of this one.
type otherAgent api.RecordedAgent

func (o otherAgent) Other() (*api.RecordedAgent, error) { return (*api.RecordedAgent)(&o), nil }

// The doctor names the agent that the cluster had before, and how an admin accepts the new one.
func TestDoctorSeesAnotherAgent(t *testing.T) {
	found := findIn(t, Agent{Record: otherAgent{Fingerprint: "SHA256:x", Ledger: "first", Namespace: "bourse"}}.Find)
	if len(found) != 1 || found[0].Code != health.IdentityReplaced.Code || found[0].Subject != "Agent default" ||
		!strings.HasSuffix(found[0].Remedy, "kubectl delete agents.bourse.dev default") ||
		found[0].Detail != "it records an agent in namespace bourse with the key SHA256:x and the Ledger first" {
		t.Errorf("it finds %+v", found)
	}
}

// The doctor names the Offers that are refused, and not those that are off sale by their admin's will.
func TestDoctorSeesRefusedOffers(t *testing.T) {
	c, err := client.New(kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: api.GroupVersion, Kind: "Offer", Resource: "offers", Namespaced: true},
	}}).Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	for name, reason := range map[string]string{"bad": string(api.CodeInvalid), "draft": "Draft",
		"away": string(api.CodeUnavailable)} {
		offer := &api.Offer{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: name}}
		offer.Spec.Plans = []api.Plan{{Name: "small"}}
		offer.Status.Conditions = []metav1.Condition{{Type: api.ConditionReady, Status: metav1.ConditionFalse,
			Reason: reason, LastTransitionTime: metav1.Now()}}
		if err := c.Create(t.Context(), offer); err != nil {
			t.Fatal(err)
		}
	}
	found := findIn(t, Offers{Client: c, Namespace: api.Namespace}.Find)
	if len(found) != 1 || found[0].Code != health.OfferRefused.Code || found[0].Subject != "Offer bad" {
		t.Errorf("found %+v", found)
	}
}

// A provider that this cluster passes over for each new request is a problem before a request is refused.
func TestDoctorSeesAProviderThatIsPassedOver(t *testing.T) {
	passed := map[string]error{"milan": api.Errorf(api.CodeInUse, "milan has what this cluster lends on")}
	c, err := client.New(kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{{GroupVersion: api.GroupVersion, Kind: "Peer",
		Resource: "peers", Namespaced: true}}}).Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	check := Peers{Client: c, Namespace: "bourse",
		PassedOver: func(context.Context) (map[string]error, error) { return passed, nil }}
	found := findIn(t, check.Find)
	if len(found) != 1 || found[0].Code != health.ProviderPassedOver.Code || found[0].Subject != "provider milan" ||
		!strings.Contains(found[0].Detail, "milan has what this cluster lends on") {
		t.Errorf("it finds %+v", found)
	}
	if passed = nil; len(findIn(t, check.Find)) != 0 {
		t.Error("without such a provider it finds something")
	}
}
