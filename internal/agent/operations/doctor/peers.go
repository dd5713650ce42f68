package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
	"github.com/bourse-dev/bourse/internal/liqoprotocol"
)

// stuckAfter is how long a peering may take to open or close.
const stuckAfter = 2 * time.Minute

// Peers looks at the keys of other clusters, at prototypes among them, and at those that new requests get nothing
// from.
type Peers struct {
	Client    client.Reader
	Namespace string
	// PassedOver returns why this cluster passes over providers for each new request, by provider.
	PassedOver func(ctx context.Context) (map[string]error, error)
}

// Find looks.
func (c Peers) Find(ctx context.Context) (found []api.Problem, err error) {
	var list api.PeerList
	if err := c.Client.List(ctx, &list, client.InNamespace(c.Namespace)); err != nil {
		return nil, err
	}
	for _, p := range list.Items {
		if legacy := meta.FindStatusCondition(p.Status.Conditions, api.ConditionLegacyAccounting); legacy != nil {
			found = append(found, health.LegacyAccounting.Of("cluster "+p.Name,
				"replace its agent: docs/migrate.md", "%s", legacy.Message))
		}
		trusted := meta.FindStatusCondition(p.Status.Conditions, api.ConditionTrusted)
		if trusted == nil {
			continue
		}
		remedy := fmt.Sprintf("ask its admin for the fingerprint (bourse status), then: bourse trust %s FINGERPRINT", p.Name)
		switch trusted.Reason {
		case string(api.CodeKeyChanged):
			found = append(found, health.KeyChanged.Of("cluster "+p.Name, remedy, "%s", trusted.Message))
		case string(api.CodeKeyUnconfirmed):
			found = append(found, health.KeyUnconfirmed.Of("cluster "+p.Name, remedy, "%s", trusted.Message))
		}
	}
	passed, err := c.PassedOver(ctx)
	for _, provider := range slices.Sorted(maps.Keys(passed)) {
		found = append(found, health.ProviderPassedOver.Of("provider "+provider, "", "%s", passed[provider]))
	}
	return found, err
}

// Peerings looks at peerings, the versions of Liqo on both sides, and what Liqo made for them. It is for a
// cluster with Liqo.
type Peerings struct {
	Client client.Reader
	// Reader reads from the API server.
	Reader    client.Reader
	Namespace string
	// Broker shows what Liqo other clusters have.
	Broker interface {
		Cluster(ctx context.Context, id string) (api.Envelope[api.Cluster], error)
	}
	// Liqo is the one of this cluster.
	Liqo interface {
		FillCard(*api.Properties, *api.Sharing)
	}
	Clock clock.PassiveClock
}

// Find looks at all of that. An error of one part keeps no other from being looked at.
func (c Peerings) Find(ctx context.Context) (all []api.Problem, failed error) {
	for _, find := range []func(context.Context) ([]api.Problem, error){
		c.findStuck, c.findCollisions, c.findCertificates,
	} {
		found, err := find(ctx)
		all, failed = append(all, found...), errors.Join(failed, err)
	}
	return all, failed
}

// findStuck looks for peerings that are stuck, and at the versions of Liqo.
func (c Peerings) findStuck(ctx context.Context) (found []api.Problem, err error) {
	var list api.PeeringList
	if err := c.Client.List(ctx, &list, client.InNamespace(c.Namespace)); err != nil {
		return nil, err
	}
	for _, p := range list.Items {
		s := p.Status
		subject := "cluster " + p.Spec.Cluster
		if waits := s.State == api.PeeringOpening || s.State == api.PeeringClosing; waits &&
			s.Since != nil && c.Clock.Since(s.Since.Time) > stuckAfter {
			found = append(found, health.PeeringStuck.Of(subject, "see: kubectl -n "+c.Namespace+" describe peering "+p.Name,
				"peering %s has been %s since %s and waits for %s",
				p.Name, s.State, s.Since.Format(time.RFC3339), cmp.Or(strings.Trim(s.Step+": "+s.Message, ": "),
					"the other cluster")))
		}
		if s.State == api.PeeringClosing { // its reservations may be forgotten: a broker would learn of the cluster
			continue
		}
		cluster, err := c.Broker.Cluster(ctx, p.Spec.Cluster)
		if err != nil {
			continue // it does not show itself, or no broker answers: another check says so
		}
		own, other := &api.Properties{}, &cluster.Payload.Properties
		c.Liqo.FillCard(own, nil)
		if a, b := liqo.Minor(own.Liqo), liqo.Minor(other.Liqo); a != "" && b != "" && a != b {
			found = append(found, health.VersionSkew.Of(subject, "bring both clusters to the same minor version",
				"it runs Liqo %s, this cluster runs %s%s", other.Liqo, own.Liqo, differences(p.Spec.Role, own, other)))
		}
	}
	return found, nil
}

// differences says why nothing new is reserved between this cluster and another, which has this role in the peering;
// empty: it is.
func differences(role api.PeeringRole, own, other *api.Properties) string {
	consumer, provider := liqoprotocol.Of(own), liqoprotocol.Of(other)
	if role == api.RoleConsumer {
		consumer, provider = provider, consumer
	}
	if difference := liqoprotocol.Compare(consumer, provider); difference != "" {
		return "; nothing new is reserved: " + difference
	}
	return ""
}

// findCollisions looks for consumers whose IDs are users or groups here.
func (c Peerings) findCollisions(ctx context.Context) ([]api.Problem, error) {
	var list api.PeeringList
	if err := c.Client.List(ctx, &list, client.InNamespace(c.Namespace)); err != nil {
		return nil, err
	}
	var consumers []string
	for _, p := range list.Items {
		if p.Spec.Role == api.RoleConsumer {
			consumers = append(consumers, p.Spec.Cluster)
		}
	}
	if len(consumers) == 0 {
		return nil, nil
	}
	bindings, err := posture.ReadBindings(ctx, c.Reader)
	return bindings.Colliding(consumers...), err
}

// findCertificates looks at the certificates that consumers' Liqo shows to providers. Liqo renews them.
func (c Peerings) findCertificates(ctx context.Context) (found []api.Problem, err error) {
	all, err := peering.Certificates(ctx, c.Client)
	for _, certificate := range all {
		subject, ends := "cluster "+certificate.Peer, certificate.Until.UTC().Format(time.RFC3339)
		switch now := c.Clock.Now(); {
		case now.After(certificate.Until):
			found = append(found, health.CertificateExpired.Of(subject,
				certificate.Remedy, "the certificate of %s ended %s", certificate.Object, ends))
		case certificate.Overdue(now):
			found = append(found, health.CertificateExpiring.Of(subject,
				certificate.Remedy, "the certificate of %s ends %s, and Liqo has not renewed it", certificate.Object, ends))
		}
	}
	return found, err
}
