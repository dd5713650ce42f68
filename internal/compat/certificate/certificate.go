// Package certificate makes the certificates of clusters whose agents are of the prototypes, with the
// broker's own CA. An operator asks for one with `bourse broker sign-csr`.
package certificate

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
)

// longest is how long a certificate may live. It is renewed by hand, as an operator's.
const longest = 365 * 24 * time.Hour

// Make makes the certificate of a cluster that need not be a member yet: its first advertisement asks
// for membership. Errors: Invalid; Conflict where the broker does not serve such agents, or the cluster
// has a key of its own.
func Make(a *tlsid.Authority, members *market.View, cluster string,
	ask api.CertificateCreate) (made api.CertificateCreated, err error) {
	if err := market.ValidCluster("cluster", cluster); err != nil {
		return made, err
	}
	life := ask.Duration.Duration
	if life == 0 {
		life = longest
	}
	if life < 0 || life > longest {
		return made, api.Invalid("duration", "%s is not between 0 and %s", life, longest).
			Fix("give a duration such as 720h")
	}
	if l := members.Listing(cluster); l != nil && l.Member != nil &&
		!l.Member.Legacy && l.Member.State != api.MemberRemoved {
		return made, api.Errorf(api.CodeConflict,
			"cluster %s has joined with a key of its own: a certificate without it is worth nothing", cluster).
			Fix("make it a token instead: bourse broker token create --cluster %s", cluster)
	}
	chain, expires, err := sign(a, []byte(ask.Request), cluster, life)
	switch {
	case errors.Is(err, tlsid.ErrCannotIssue):
		return made, api.Errorf(api.CodeConflict, "this broker has no CA of its own (--tls-cert-dir)").
			Fix("have the request signed by the CA that its certificate is of: config/certmanager/member")
	case errors.Is(err, tlsid.ErrNoCommonNames):
		return made, api.Errorf(api.CodeConflict, "%s", err).
			Fix("start it with --broker-interface http, or let the cluster join: bourse broker token create --cluster %s",
				cluster)
	case err != nil:
		return made, api.Invalid("request", "%s", err).
			Fix("let the member make one: openssl req -new -newkey rsa:2048 -nodes -keyout tls.key -subj /CN=%s", cluster)
	}
	made.Certificate, made.CA, made.Expires = string(chain), string(a.CAPEM()), metav1.NewTime(expires)
	return made, nil
}

// sign signs a request (PEM). It ignores the names in the request.
func sign(a *tlsid.Authority, request []byte, cluster string,
	life time.Duration) (chain []byte, expires time.Time, err error) {
	if err := a.SignsCommonNames(); err != nil {
		return nil, expires, err
	}
	key, err := parseRequest(request)
	if err != nil {
		return nil, expires, fmt.Errorf("%w: %w", tlsid.ErrBadCSR, err)
	}
	return a.SignCommonName(key, cluster, life)
}
