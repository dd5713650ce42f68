package peers

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

// showKey writes into a Peer's status which key its cluster has, and whether it is trusted. m is nil for a
// cluster that the Ledger does not know.
func (p *Peers) showKey(s *api.PeerStatus, cluster string, m *market.Member, invalid error, generation int64) {
	s.Fingerprint = ""
	if m != nil && m.Key != "" {
		if key, err := clusterkey.ParsePublicKey(m.Key); err == nil {
			s.Fingerprint = key.Fingerprint().String()
		}
	}
	trusted := p.trusted(s.Fingerprint, cluster, m, invalid)
	trusted.Type, trusted.ObservedGeneration = api.ConditionTrusted, generation
	meta.SetStatusCondition(&s.Conditions, trusted)
	if m == nil || !m.Legacy {
		meta.RemoveStatusCondition(&s.Conditions, api.ConditionLegacyAccounting)
		return
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: api.ConditionLegacyAccounting, Status: metav1.ConditionTrue, Reason: "Prototype",
		ObservedGeneration: generation,
		Message: "its agent is a prototype, which counts a reservation and also the pods that use it: " +
			"the cluster offers less than it has; peer with it by hand",
	})
}

// trusted returns whether the key of a cluster is trusted, and why.
func (p *Peers) trusted(fingerprint, cluster string, m *market.Member, invalid error) metav1.Condition {
	p.mu.Lock()
	last, failed := p.cards[cluster], p.failed[cluster]
	p.mu.Unlock()
	// A card is refused because of the key that is pinned or named, unless the admin has confirmed
	// its key since.
	refused := last.refused != nil && m != nil && (m.Key != "" || m.Trusted != "") && m.Trusted != last.fingerprint
	condition := func(status metav1.ConditionStatus, reason, format string, values ...any) metav1.Condition {
		return metav1.Condition{Status: status, Reason: reason, Message: fmt.Sprintf(format, values...)}
	}
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	switch {
	case invalid != nil:
		return condition(no, string(api.CodeInvalid), "%s", invalid)
	case m != nil && m.Key == "" && !refused && failed != nil:
		return condition(metav1.ConditionUnknown, "NotMet", "its connector at %s cannot be called: %s", m.Address,
			trust.Text(failed.Error()))
	case m == nil || m.Key == "" && !refused:
		return condition(metav1.ConditionUnknown, "NotMet", "no card of it was seen yet")
	case m.Key != "" && m.Trusted != "" && m.Trusted != fingerprint && !m.Confirmed:
		return condition(no, string(api.CodeKeyChanged),
			"the pinned key is not the one that the admin named; existing reservations stay, nothing new is agreed")
	case api.CodeOf(failed) == api.CodeKeyChanged:
		return condition(no, string(api.CodeKeyChanged), "at its connector, %s", trust.Text(failed.Error()))
	case refused:
		return condition(no, string(api.CodeOf(last.refused)), "it shows the key %s: %s", last.fingerprint, last.refused)
	case m.Trusted != "" && m.Trusted != fingerprint:
		return condition(yes, "Rotated",
			"the key that the admin confirmed, %s, signed this one as its successor; "+
				"write it into spec.fingerprint, in Git too, or: bourse trust %s %s",
			m.Trusted, cluster, fingerprint)
	case m.Legacy:
		return condition(yes, "Legacy",
			"it has no key: the broker signs in its name, which the SharingPolicy accepts (trust: legacy)")
	case m.Confirmed && m.Trusted == "":
		return condition(yes, "Endorsed", "a root that the admin trusts confirmed its key")
	case m.Trusted != "":
		return condition(yes, "Confirmed", "the admin confirmed its key")
	}
	return condition(yes, "FirstUse", "its key was pinned at the first contact; no admin confirmed it")
}
