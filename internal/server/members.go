package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/certificate"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
)

// steps maps the last part of the route to the state that an operator sets.
var steps = map[string]api.MemberState{
	"approve": api.MemberActive, "suspend": api.MemberSuspended, "resume": api.MemberActive,
	"revoke": api.MemberRevoked, "remove": api.MemberRemoved,
}

// endCertificates ends a member's certificates and leaves its membership unchanged.
const endCertificates = "end-certificates"

func (s *Server) memberRoutes() {
	forOperators(s, operation("list-members", http.MethodGet, "/members", "The members (operators)"), s.listMembers)
	forOperators(s, operation("set-member", http.MethodPost, "/members/{cluster}/{step}",
		"Approve, suspend, resume, revoke or remove a member, or end its certificates (operators)"), s.setMember)
	forOperators(s, operation("set-caps", http.MethodPut, "/members/{cluster}/caps",
		"Set how much one member may have (operators)"), s.setCaps)
	forOperators(s, operation("create-certificate", http.MethodPost, "/members/{cluster}/certificate",
		"Make the certificate of a cluster whose agent is of the prototypes (operators)", created), s.createCertificate)
	forOperators(s, operation("create-operator", http.MethodPost, "/operators",
		"End all certificates of operators, and make a new one (the broker's local socket)", created), s.createOperator)
	forOperators(s, operation("list-tokens", http.MethodGet,
		"/tokens", "The join tokens, without their secrets (operators)"), s.listTokens)
	forOperators(s, operation("create-token", http.MethodPost,
		"/tokens", "Make a join token (operators)", created), s.createToken)
	forOperators(s, operation("delete-token", http.MethodDelete,
		"/tokens/{id}", "Make a join token void that no cluster has used (operators)", noContent), s.deleteToken)
	forOperators(s, operation("broker-status", http.MethodGet,
		"/broker", "The state of the broker (operators)"), s.brokerStatus)
}

// forOperators registers a route that answers operators only.
func forOperators[In, Out any](s *Server, o huma.Operation, do func(context.Context, *In) (*Out, error)) {
	huma.Register(s.api, o, func(ctx context.Context, in *In) (*Out, error) {
		if err := operator(ctx); err != nil {
			return nil, err
		}
		return do(ctx, in)
	})
}

func (s *Server) memberPayload(m *market.Member) api.Envelope[api.Member] {
	p := api.Member{State: m.State, Legacy: m.Legacy, Source: m.Source, Joined: m.Joined.Meta(), Changed: m.Changed.Meta()}
	p.Software = s.software.of(m.Cluster)
	if key, err := clusterkey.ParsePublicKey(m.Key); err == nil {
		p.Fingerprint = key.Fingerprint().String()
	}
	if m.Caps != nil {
		p.Caps = &api.Caps{Reservations: m.Caps.Reservations, Pending: m.Caps.Pending,
			Priority: m.Caps.Priority, Resources: m.Caps.Resources.Resources()}
	}
	if l := s.Exchange.View().Listing(m.Cluster); l != nil {
		p.Fresh = m.State == api.MemberActive && l.Fresh(s.Exchange.Now())
	}
	return api.Envelope[api.Member]{ID: m.Cluster, Payload: p}
}

func (s *Server) listMembers(ctx context.Context, in *struct{ Page }) (*body[page[api.Member]], error) {
	var members []*market.Member
	err := s.Exchange.Read(ctx, func(m *market.State) { members = m.Members() })
	var items []api.Envelope[api.Member]
	for _, m := range members {
		items = append(items, s.memberPayload(m))
	}
	return &body[page[api.Member]]{cut(items, in.Page)}, wrap(err)
}

func (s *Server) setMember(ctx context.Context, in *struct {
	ClusterPath
	Step string `path:"step" enum:"approve,suspend,resume,revoke,remove,end-certificates"`
}) (*body[api.Envelope[api.Member]], error) {
	at := market.At(s.Authority.Now())
	command := market.Command(market.SetMember{Cluster: in.Cluster, State: steps[in.Step], At: at})
	if in.Step == endCertificates {
		command = market.EndCertificates{Cluster: in.Cluster, At: at}
	}
	out, err := s.Exchange.Do(ctx, command)
	if err != nil {
		return nil, wrap(err)
	}
	if out.Member.State != api.MemberActive || in.Step == endCertificates {
		s.Exchange.CloseWatches(ctx, in.Cluster)
	}
	s.Log.Info("member changed", "cluster", in.Cluster, "step", in.Step, "state", out.Member.State, "by", CallerOf(ctx))
	return &body[api.Envelope[api.Member]]{s.memberPayload(out.Member)}, nil
}

func (s *Server) setCaps(ctx context.Context, in *struct {
	ClusterPath
	Body api.Caps
}) (*body[api.Envelope[api.Member]], error) {
	caps, err := market.CapsOf("", in.Body)
	if err != nil {
		return nil, err
	}
	command := market.SetCaps{Cluster: in.Cluster}
	if !caps.None() {
		command.Caps = &caps
	}
	out, err := s.Exchange.Do(ctx, command)
	if err != nil {
		return nil, wrap(err)
	}
	s.Log.Info("caps of a member changed", "cluster", in.Cluster, "reservations", caps.Reservations, "by", CallerOf(ctx))
	return &body[api.Envelope[api.Member]]{s.memberPayload(out.Member)}, nil
}

func (s *Server) listTokens(ctx context.Context, in *struct{ Page }) (*body[page[api.Token]], error) {
	var items []api.Envelope[api.Token]
	err := s.Exchange.Read(ctx, func(m *market.State) {
		for _, t := range m.Tokens() {
			items = append(items, api.Envelope[api.Token]{ID: t.ID,
				Payload: api.Token{Cluster: t.Cluster, Expires: t.Expires.Meta(), UsedBy: t.UsedBy}})
		}
	})
	return &body[page[api.Token]]{cut(items, in.Page)}, wrap(err)
}

const (
	defaultTTL = time.Hour
	maxTTL     = 30 * 24 * time.Hour
)

func (s *Server) createToken(ctx context.Context, in *struct{ Body api.TokenCreate }) (*body[api.TokenCreated], error) {
	ttl := in.Body.TTL.Duration
	if ttl == 0 {
		ttl = defaultTTL
	}
	if ttl < 0 || ttl > maxTTL {
		return nil, api.Invalid("ttl", "%s is not between 0 and %s", ttl, maxTTL).Fix("give a duration such as 24h")
	}
	pin, err := s.Authority.Pin()
	if err != nil {
		return nil, api.Errorf(api.CodeConflict, "%s", err)
	}
	t, err := join.NewToken(rand.Reader, s.URL, pin)
	if err != nil {
		return nil, wrap(err)
	}
	expires := s.Exchange.Now().Go().Add(ttl)
	_, err = s.Exchange.Do(ctx, market.CreateToken{Token: market.Token{
		ID: t.ID, Hash: t.SecretHash().String(), Cluster: in.Body.Cluster, Expires: market.At(expires),
	}})
	if err != nil {
		return nil, wrap(err)
	}
	return &body[api.TokenCreated]{api.TokenCreated{ID: t.ID, Token: t.Text(), Expires: metav1.NewTime(expires)}}, nil
}

func (s *Server) deleteToken(ctx context.Context, in *struct {
	ID string `path:"id" maxLength:"80"`
}) (*struct{}, error) {
	if _, err := s.Exchange.Do(ctx, market.DeleteToken{ID: in.ID}); err != nil {
		return nil, wrap(err)
	}
	s.Log.Info("a join token is void", "token", in.ID, "by", CallerOf(ctx))
	return nil, nil
}

func (s *Server) brokerStatus(ctx context.Context, _ *struct{}) (*body[api.BrokerState], error) {
	out := api.BrokerState{
		URL: s.URL, Since: s.started.Meta(), Protocol: api.Protocol,
		Members: map[api.MemberState]int{}, Reservations: map[api.State]int{},
	}
	err := s.Exchange.Read(ctx, func(m *market.State) {
		out.Lineage, out.Revision, out.Tokens = s.Exchange.Lineage(), m.Revision, len(m.Tokens())
		for _, member := range m.Members() {
			out.Members[member.State]++
		}
		for state, n := range m.Count() {
			if n > 0 && !state.Over() {
				out.Reservations[state] = n
			}
		}
	})
	return &body[api.BrokerState]{out}, wrap(err)
}

func (s *Server) createCertificate(ctx context.Context, in *struct {
	ClusterPath
	Body api.CertificateCreate
}) (*body[api.CertificateCreated], error) {
	made, err := certificate.Make(s.Authority, s.Exchange.View(), in.Cluster, in.Body)
	if err != nil {
		return nil, err
	}
	s.Log.Info("a certificate was made for an agent of the prototypes",
		"cluster", in.Cluster, "expires", made.Expires, "by", CallerOf(ctx))
	return &body[api.CertificateCreated]{made}, nil
}

// createOperator ends all certificates of operators and issues another. It requires the socket: otherwise
// a thief of a certificate could issue the next one, and so on.
func (s *Server) createOperator(ctx context.Context, in *struct {
	Body api.OperatorCertificateCreate
}) (*body[api.OperatorCertificateCreated], error) {
	c := CallerOf(ctx)
	if c.Certificate.Key != "" {
		return nil, api.Errorf(api.CodeForbidden, "%s calls with a certificate: it cannot make another", c).
			Fix("use the broker's local socket")
	}
	name := cmp.Or(in.Body.Name, "admin")
	if len(in.Body.CSR) > 0 { // check before anything ends
		if _, err := s.Authority.SignOperator(in.Body.CSR, name, s.Authority.Now()); errors.Is(err, tlsid.ErrCannotIssue) {
			return nil, api.Errorf(api.CodeConflict, "this broker has no CA of its own (--tls-cert-dir)").
				Fix("end the former ones without a folder: bourse broker operator; then have that CA issue another")
		} else if err != nil {
			return nil, api.Invalid("csr", "%s", err).
				Fix("send a request for an ECDSA P-256 key, and a name that is a DNS label")
		}
	}
	out, err := s.Exchange.Do(ctx, market.EndOperators{At: market.At(s.Authority.Now())})
	if err != nil {
		return nil, wrap(err)
	}
	from := out.Operators.CertificatesFrom
	s.Log.Info("all certificates of operators have ended", "from", from.Go(), "by", c)
	answer := api.OperatorCertificateCreated{From: from.Meta()}
	if len(in.Body.CSR) > 0 {
		certificate, err := s.Authority.SignOperator(in.Body.CSR, name, from.Go())
		if err != nil {
			return nil, wrap(err)
		}
		answer.Certificate, answer.CA = string(certificate), string(s.Authority.CAPEM())
	}
	return &body[api.OperatorCertificateCreated]{answer}, nil
}
