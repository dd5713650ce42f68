package doctor

import (
	"context"
	"crypto/x509"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/enrollment"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

const (
	// maxSkew is how much two clocks may differ.
	maxSkew = 15 * time.Second
	// renewTokenWithin is how long before its end a token for the broker's cluster should be replaced.
	renewTokenWithin = 24 * time.Hour
)

// Membership is this cluster as a member of the main broker.
type Membership interface {
	URL() string
	// ProxyTo returns the proxy through which a broker is called, or "" without one.
	ProxyTo(broker string) string
	// IsDisabled reports whether an admin disabled the broker.
	IsDisabled() bool
	// Skew is how far the broker's clock is ahead of this one.
	Skew() time.Duration
	// TokenEnds returns when the token for the broker's cluster ends; zero: never. used is false
	// where there is none.
	TokenEnds() (ends time.Time, used bool)
	Certificate() (*x509.Certificate, error)
	// Admission says why this cluster has not joined the broker.
	Admission() enrollment.Admission
	// TokenElsewhere returns the broker of the token in the Secret, if this cluster has joined another.
	TokenElsewhere(ctx context.Context) (broker string, err error)
}

// Brokers are those of this cluster.
type Brokers interface {
	MainState() session.State
	List(ctx context.Context) ([]api.Envelope[api.KnownBroker], error)
}

// MainBroker looks at the connection to the main broker, its clock, and what this cluster shows there.
type MainBroker struct {
	Cluster    string
	Membership Membership
	Brokers    Brokers
	Clock      clock.PassiveClock
}

// Find looks.
func (c MainBroker) Find(ctx context.Context) (found []api.Problem, _ error) {
	if a := c.Membership.Admission(); a.Err != nil && !c.Membership.IsDisabled() {
		return []api.Problem{c.problemOf(a)}, nil
	}
	if c.Membership.URL() == "" { // there is none
		return nil, nil
	}
	if elsewhere, err := c.Membership.TokenElsewhere(ctx); err == nil && elsewhere != "" { // it need not be readable any more
		found = append(found, health.TokenElsewhere.Of("broker "+elsewhere, "delete the Secret; to join as well: bourse "+
			"brokers add NAME --join TOKEN; to move: docs/lend.md, Join again", "this cluster is a member of %s", c.Membership.URL()))
	}
	connection := c.Brokers.MainState()
	cause, last := connection.Err, connection.Last
	if cause != nil && !c.Membership.IsDisabled() {
		kind, remedy := health.BrokerUnreachable, "check that the broker runs at "+c.Membership.URL()+
			c.adviceOfProxy(c.Membership.URL())
		if api.CodeOf(cause).RefusesMember() {
			kind, remedy = health.NotAdmitted, "ask the broker's operator"
		}
		if own := remedyOf(cause); own != "" {
			remedy = own
		}
		found = append(found, kind.Of("broker "+c.Membership.URL(),
			remedy, "%s; last heard %s", cause, ago(c.Clock, last)))
	}
	if skew := c.Membership.Skew(); skew.Abs() > maxSkew {
		found = append(found, health.ClockSkew.Of("broker "+c.Membership.URL(),
			"synchronize both clocks with NTP", "its clock is %s ahead of this one", skew.Round(time.Second)))
	}
	if ends, used := c.Membership.TokenEnds(); used {
		return append(found, c.findOfToken(ends)...), nil
	}
	certificate, err := c.Membership.Certificate()
	switch now := c.Clock.Now(); {
	case err != nil:
		found = append(found, health.CertificateExpired.Of("", "", "%s", err))
	case now.After(certificate.NotAfter):
		found = append(found, health.CertificateExpired.Of("",
			"read the agent's log and check that it reaches the broker: it then renews the certificate with its cluster key; "+
				"a certificate of --broker-cert-path is renewed by its issuer",
			"the certificate for the broker ended %s", certificate.NotAfter.Format(time.RFC3339)))
	case now.After(tlsid.RenewAt(certificate, c.Cluster).Add(time.Hour)):
		found = append(found, health.CertificateExpiring.Of("", "read the agent's log, and check that it reaches the broker",
			"the certificate for the broker ends %s", certificate.NotAfter.Format(time.RFC3339)))
	}
	return found, nil
}

// problemOf returns what keeps this cluster from joining its broker.
func (c MainBroker) problemOf(a enrollment.Admission) api.Problem {
	kind, remedy := health.JoinRefused, "ask the broker's operator for a new token: bourse broker token create"
	switch a.Reason {
	case api.ReasonWaitsForToken:
		kind = health.WaitsForToken
	case api.ReasonClonedIdentity:
		kind = health.ClonedIdentity
	case api.ReasonBrokerUnreachable:
		kind, remedy = health.BrokerUnreachable, "check that the broker runs at "+a.URL+", and that this cluster reaches it"+
			c.adviceOfProxy(a.URL)
	}
	if own := remedyOf(a.Err); own != "" {
		remedy = own
	}
	subject := ""
	if a.URL != "" {
		subject = "broker " + a.URL
	}
	return kind.Of(subject, remedy, "%s", a.Err)
}

// adviceOfProxy names the proxy that stands between this cluster and a broker, if one does.
func (c MainBroker) adviceOfProxy(broker string) string {
	proxy := c.Membership.ProxyTo(broker)
	if proxy == "" {
		return ""
	}
	host := broker
	if to, err := url.Parse(broker); err == nil {
		host = to.Hostname()
	}
	return "; the agent calls it through " + proxy + " (HTTPS_PROXY): check that this proxy lets it through, or add " +
		host + " to NO_PROXY of the agent"
}

// findOfToken looks at the token for the broker's cluster.
func (c MainBroker) findOfToken(ends time.Time) []api.Problem {
	remedy := "ask the broker's operator for a new kubeconfig (bourse broker kubeconfig " +
		c.Cluster + "), and replace the file of --broker-kubeconfig"
	switch left := ends.Sub(c.Clock.Now()); {
	case ends.IsZero() || left > renewTokenWithin:
		return nil
	case left > 0:
		return []api.Problem{health.CertificateExpiring.Of("", remedy,
			"the token for the broker's cluster ends %s", ends.UTC().Format(time.RFC3339))}
	}
	return []api.Problem{health.CertificateExpired.Of("", remedy,
		"the token for the broker's cluster ended %s", ends.UTC().Format(time.RFC3339))}
}

// ago says how long ago something was.
func ago(now clock.PassiveClock, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return now.Since(t).Round(time.Second).String() + " ago"
}

// OtherBrokers looks at the brokers besides the main one.
type OtherBrokers struct {
	Brokers Brokers
	Clock   clock.PassiveClock
}

// Find looks.
func (c OtherBrokers) Find(ctx context.Context) (found []api.Problem, err error) {
	known, err := c.Brokers.List(ctx)
	for _, b := range known {
		connected := meta.FindStatusCondition(b.Payload.Status.Conditions, api.ConditionConnected)
		if b.ID == api.MainBroker || connected.Status == metav1.ConditionTrue || b.Payload.Spec.Disabled {
			continue
		}
		leave := []string{"bourse", "brokers", "remove", b.ID}
		subject, detail := "broker "+b.ID+" "+b.Payload.Status.URL, connected.Message+"; last heard "+ago(c.Clock, b.Payload.LastHeard.Time)
		switch {
		case connected.Reason == "NotJoined":
			found = append(found, health.BrokerUnreachable.Of(subject,
				"ask its operator for a token: bourse brokers add "+b.ID+" --join TOKEN", "%s", detail))
		case api.Code(connected.Reason).RefusesMember():
			found = append(found, health.NotAdmitted.Of(subject, "", "%s", detail).By("ask its operator; or leave it", leave...))
		default:
			found = append(found, health.BrokerUnreachable.Of(subject, "", "%s", detail).By("check that it runs; or leave it", leave...))
		}
	}
	return found, err
}
