package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

const (
	joinPath, renewPath = api.Prefix + "/join", api.Prefix + "/renew"
	// maxSignedBody bounds the body of a call to join or to renew, in bytes. A renewal with the maximum
	// number of rotations takes a third of it.
	maxSignedBody = 24 << 10
)

func (s *Server) joinRoutes() {
	short := func(o *huma.Operation) { o.MaxBodyBytes = maxSignedBody }
	huma.Register(s.api, operation("join", http.MethodPost, "/join",
		"Join with a token; needs no certificate", short), s.join)
	huma.Register(s.api, operation("renew", http.MethodPost, "/renew",
		"Renew a member's certificate, by its cluster key; needs no certificate", short, unvalidated), s.renew)
}

func (s *Server) join(ctx context.Context, in *struct{ Body join.Submission }) (*body[api.Joined], error) {
	hash := join.SecretHash(in.Body.Secret).String()
	if err := s.countJoin(CallerOf(ctx), in.Body.TokenID, hash); err != nil {
		return nil, err
	}
	request, who, err := in.Body.Open(s.Exchange.Now().Go())
	if err != nil {
		return nil, api.Errorf(api.CodeInvalid, "%s", err).At("request").
			Fix("start the agent again with the whole token: bourse agent --join TOKEN")
	}
	if request.Protocol != api.Protocol {
		return nil, api.OtherProtocol(api.CodeInvalid, "the request to join of "+who.Cluster, request.Protocol)
	}
	source := CallerOf(ctx).Address
	out, err := s.Exchange.Do(ctx, market.Join{
		TokenID: in.Body.TokenID, Hash: hash, Cluster: who.Cluster,
		Key: in.Body.Key.String(), TLSKey: who.TLSKey.String(), Source: source,
	})
	if err != nil {
		return nil, wrap(err)
	}
	s.Exchange.CloseWatches(ctx, who.Cluster) // the watches with certificates that end now
	s.Log.Info("a cluster joined", "cluster", who.Cluster, "fingerprint",
		who.ClusterKey, "from", source, "state", out.Member.State)
	return s.issue(request.CSR, out.Member)
}

// countJoin counts a call to join: by its token if that is known, so that clusters behind one address do not wait for
// its strangers. Errors: TooManyRequests.
func (s *Server) countJoin(c Caller, token, secretHash string) error {
	reason, what := "rate_of_joins", "join token "+token
	if !s.Exchange.View().HasToken(token, secretHash) {
		token, reason, what = "", "rate", "the address "+c.Address
	}
	if s.limits.allowJoin(c, token) {
		return nil
	}
	refused(reason)
	return api.Errorf(api.CodeTooManyRequests, "%s is used to join too often", what).
		Fix("call less often: %g calls a second are allowed", s.Rate*strangers)
}

func (s *Server) issue(csr []byte, m *market.Member) (*body[api.Joined], error) {
	certificate, err := s.Authority.SignMember(csr, m.Cluster)
	if err != nil {
		return nil, api.Errorf(api.CodeInvalid, "%s", err).At("csr")
	}
	return &body[api.Joined]{api.Joined{Certificate: string(certificate),
		CA: string(s.Authority.CAPEM()), State: m.State}}, nil
}

// renew answers every member that is not revoked or removed, including pending and suspended ones. The
// cluster key decides, not the certificate of the connection.
func (s *Server) renew(ctx context.Context, in *struct{ Body join.Renewal }) (*body[api.Joined], error) {
	if in.Body.Request == "" { // agents with protocol 1 sent only a certificate request
		return nil, api.OtherProtocol(api.CodeInvalid, "the renewal", 1)
	}
	request, tlsKey, err := in.Body.Open(s.Authority.Federation(), s.Exchange.Now().Go())
	if err != nil {
		return nil, api.Errorf(api.CodeInvalid, "%s", err).At("request").
			Fix("compare the clocks, and the versions of agent and broker")
	}
	if _, err := s.Authority.Pin(); err != nil {
		return nil, api.Errorf(api.CodeConflict, "%s", err)
	}
	order := market.Renew{
		Cluster: request.Cluster, Key: in.Body.Key.String(), TLSKey: tlsKey.String(),
	}
	var known *market.Member
	if l := s.Exchange.View().Listing(request.Cluster); l != nil {
		known = l.Member
	}
	// anyone can sign many rotations, which take long to verify
	if known != nil && trust.SignedRotation(request.Cluster, known.Key, in.Body.Rotations) {
		order.Former = trust.Former(request.Cluster, in.Body.Key, in.Body.Rotations)
	}
	if err := order.Check(known); err != nil { // anyone can sign with an unknown key: the market must not work for it
		return nil, err
	}
	if !s.limits.allowRenewal(order.Key) {
		refused("rate_of_renewals")
		return nil, api.Errorf(api.CodeTooManyRequests, "cluster %s renews its certificate too often", request.Cluster).
			Fix("wait %s", market.RenewEvery)
	}
	out, err := s.Exchange.Do(ctx, order)
	if err != nil {
		return nil, wrap(err)
	}
	if len(out.Member.TLSKeys) == 1 {
		s.Exchange.CloseWatches(ctx, request.Cluster) // all former certificates have ended
	}
	s.Log.Info("a certificate was renewed", "cluster", request.Cluster)
	return s.issue(request.CSR, out.Member)
}
