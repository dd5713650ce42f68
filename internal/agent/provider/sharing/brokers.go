package sharing

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/market"
)

// maxBrokers equals that of the SharingPolicy.
const maxBrokers = 16

// checkBrokers checks the brokers of a policy as the CRD does. Errors: Invalid.
func checkBrokers(names []string) error {
	if len(names) > maxBrokers {
		return api.Invalid("brokers", "%d brokers", len(names)).Fix("name at most %d", maxBrokers)
	}
	for _, name := range names {
		if err := market.ValidCluster("brokers", name); err != nil {
			return err
		}
	}
	return nil
}

// findUnknown returns those of the named brokers that this cluster has not joined. Errors: those of the API server.
func (p *Policy) findUnknown(ctx context.Context, names []string) (unknown []string, _ error) {
	if len(names) == 0 {
		return nil, nil
	}
	var joined api.BrokerList
	if err := p.options.Client.List(ctx, &joined, client.InNamespace(p.options.Namespace)); err != nil {
		return nil, kubeobject.Error(err)
	}
	for _, name := range names {
		named := func(b api.Broker) bool { return b.Name == name }
		if name != api.MainBroker && !slices.ContainsFunc(joined.Items, named) {
			unknown = append(unknown, name)
		}
	}
	return unknown, nil
}

// setBrokers notes at which brokers the newest policy shows what is shared.
func (p *Policy) setBrokers(names, unknown []string) {
	p.unknown.Store(&unknown)
	if before := p.brokers.Swap(&names); before != nil && !slices.Equal(*before, names) {
		p.options.Offers.Add(p.options.Namespace, "")
	}
}

// UnknownRemedy says what to do about a broker that a SharingPolicy names and this cluster has not joined.
func UnknownRemedy(name string) string {
	return fmt.Sprintf("join it: bourse brokers add %s --join TOKEN; or remove the name from spec.brokers", name)
}

// unknownCondition names the brokers that this cluster has not joined, each with its remedy. It is nil if there
// are none.
func unknownCondition(object *api.SharingPolicy, unknown []string) *metav1.Condition {
	if len(unknown) == 0 {
		return nil
	}
	var sentences []string
	for _, name := range unknown {
		sentences = append(sentences, fmt.Sprintf("this cluster has no broker %.63q: %s", name, UnknownRemedy(name)))
	}
	return &metav1.Condition{
		Type: api.ConditionUnknownBrokers, Status: metav1.ConditionTrue, Reason: "NotJoined",
		Message: strings.Join(sentences, "; "), ObservedGeneration: object.Generation,
	}
}
