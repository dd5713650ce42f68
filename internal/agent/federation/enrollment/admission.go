package enrollment

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/store"
)

// ErrJoined says that the store holds a new certificate, or an identity that is this cluster's. The agent starts again
// with it.
var ErrJoined = errors.New("the cluster joined its broker")

// tryJoin bounds one try to join. joinAgain is the longest wait after a broker that does not answer. joinRefused
// is the wait where only people can change something: without a token, and after a refusal.
const tryJoin, joinAgain, joinRefused = 10 * time.Second, time.Minute, 5 * time.Minute

// Admission says why a cluster has not joined its broker. It is zero for a cluster that has joined, and for one
// that needs no token.
type Admission struct {
	// Reason is WaitsForToken, JoinRefused, BrokerUnreachable or ClonedIdentity.
	Reason string
	// URL is the broker of the token, or of the identity; empty: there is none.
	URL string
	// Err has a remedy.
	Err error
}

// Admission returns why the cluster has not joined its broker.
func (m *Membership) Admission() Admission {
	m.admitting.Lock()
	defer m.admitting.Unlock()
	return m.admission
}

// admit tries to join once, notes how that ended, and reports whether the cluster has joined.
func (m *Membership) admit(ctx context.Context, id *store.Identity) bool {
	a := m.tryToken(ctx, id)
	if ctx.Err() != nil {
		return false
	}
	m.admitting.Lock()
	changed := a.Reason != m.admission.Reason || a.URL != m.admission.URL ||
		a.Err != nil && m.admission.Err != nil && a.Err.Error() != m.admission.Err.Error()
	m.admission = a
	m.admitting.Unlock()
	if changed && a.Err != nil {
		m.Log.Warn("this cluster has not joined a broker", "reason", a.Reason, "broker", a.URL, "error", a.Err)
	}
	if changed && m.Changed != nil {
		m.Changed()
	}
	return a.Err == nil
}

// tryToken tries to join with the token that there is now.
func (m *Membership) tryToken(ctx context.Context, id *store.Identity) Admission {
	text, place, err := m.readToken(ctx)
	if err != nil {
		return Admission{Reason: api.ReasonWaitsForToken, Err: err}
	}
	token, err := join.ParseToken(text)
	if err != nil {
		return Admission{Reason: api.ReasonJoinRefused, Err: api.Errorf(api.CodeInvalid, "%s: %s", place, err).
			Fix("copy the whole output of the operator's `bourse broker token create`")}
	}
	ctx, cancel := context.WithTimeout(ctx, tryJoin)
	defer cancel()
	a := Admission{Reason: api.ReasonJoinRefused, URL: token.BrokerURL, Err: m.join(ctx, id, token)}
	if m.BrokerURL != "" {
		a.URL = m.BrokerURL
	}
	switch {
	case a.Err == nil:
		return Admission{}
	case isAway(a.Err):
		a.Reason = api.ReasonBrokerUnreachable
	}
	return a
}

// isAway reports whether an error says that the broker cannot answer now.
func isAway(err error) bool {
	code := api.CodeOf(err)
	return code == api.CodeUnavailable || code == api.CodeTooManyRequests || errors.Is(err, context.DeadlineExceeded)
}

// readToken returns the join token and where it was. Errors: Unauthenticated without a token.
func (m *Membership) readToken(ctx context.Context) (text, place string, err error) {
	if m.Token != "" {
		return strings.TrimSpace(m.Token), "--join", nil
	}
	remedy := "ask the broker's operator for a token (bourse broker token create), and give it: --join TOKEN"
	unread := ""
	if m.Secret != nil {
		remedy = "ask the broker's operator for a token (bourse broker token create --cluster " + m.Cluster +
			"), and put it into the Secret: kubectl -n " + m.Secret.Namespace + " create secret generic " + m.Secret.Name +
			" --from-literal=token=TOKEN; or start the agent with --without-broker"
		switch text, err = m.Secret.Read(ctx); {
		case err != nil:
			unread = "; " + m.Secret.Name + " cannot be read: " + err.Error()
		case text != "":
			return text, "Secret " + m.Secret.Name, nil
		}
	}
	return "", "", api.Errorf(api.CodeUnauthenticated, "this cluster waits for a join token of its broker%s", unread).
		Fix("%s", remedy)
}

// joinLater tries to join until that succeeds: at once with a new token, and after longer and longer waits while
// the broker does not answer. Errors: ErrJoined then.
func (m *Membership) joinLater(ctx context.Context) error {
	changed := m.Secret.Watch(ctx, m.Log)
	for wait := m.firstWait(); ; {
		again := m.Clock.After(wait/2 + mathrand.N(wait)) // clusters that were refused together do not return together
		select {
		case <-again:
		case <-changed:
			wait = time.Second
		case <-ctx.Done():
			return nil
		}
		if err := m.calls.CheckOn(); err != nil {
			continue
		}
		id, err := m.Store.Load(ctx)
		if err != nil {
			m.Log.Warn("this cluster's identity cannot be read", "error", err)
		} else if m.admit(ctx, &id) {
			return ErrJoined
		}
		if wait = min(2*wait, joinAgain); m.Admission().Reason != api.ReasonBrokerUnreachable {
			wait = joinRefused
		}
	}
}

func (m *Membership) firstWait() time.Duration {
	if m.Admission().Reason == api.ReasonBrokerUnreachable {
		return time.Second
	}
	return joinRefused
}

// TokenElsewhere returns the URL of the broker that the token in the Secret is for, if the cluster has joined another.
func (m *Membership) TokenElsewhere(ctx context.Context) (broker string, err error) {
	if m.Secret == nil || m.ca == nil {
		return "", nil
	}
	text, err := m.Secret.Read(ctx)
	if err != nil || text == "" {
		return "", err
	}
	token, err := join.ParseToken(text)
	if err != nil {
		return "", nil // it opens nothing, here or elsewhere
	}
	for rest := m.ca; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return token.BrokerURL, nil
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err == nil && identity.FingerprintOf(ca.RawSubjectPublicKeyInfo) == token.Pin {
			return "", nil
		}
	}
}

// notJoined answers all calls of a cluster to a broker that it has not joined yet.
type notJoined struct{ member *Membership }

// RoundTrip implements http.RoundTripper.
func (n notJoined) RoundTrip(*http.Request) (*http.Response, error) {
	a := n.member.Admission()
	if e, ok := errors.AsType[*api.Error](a.Err); ok {
		return nil, api.Errorf(api.CodeUnavailable, "%s", e.Detail).Fix("%s", e.Remedy)
	}
	return nil, api.Errorf(api.CodeUnavailable, "this cluster has not joined the broker: %v", a.Err)
}
