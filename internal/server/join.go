package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
)

func (s *Server) joinRoutes() {
	huma.Register(s.api, operation("join", http.MethodPost, "/join", "Join with a token; the only call without a certificate", withSource), s.join)
	huma.Register(s.api, operation("renew", http.MethodPost, "/renew", "Renew the caller's certificate"), s.renew)
}

type sourceKey struct{}

// withSource lets the handler know the address of the caller.
func withSource(o *huma.Operation) {
	o.Middlewares = append(o.Middlewares, func(c huma.Context, next func(huma.Context)) {
		next(huma.WithValue(c, sourceKey{}, c.RemoteAddr()))
	})
}

func (s *Server) join(ctx context.Context, in *struct{ Body join.Submission }) (*body[api.Joined], error) {
	request, who, err := in.Body.Open(s.Exchange.Now().Go())
	if err != nil {
		return nil, api.Errorf(api.CodeInvalid, "%s", err).At("request").Fix("start the agent anew with the whole token: bourse agent --join TOKEN")
	}
	if request.Protocol > api.Protocol {
		s.Log.Info("a newer agent joins", "cluster", who.Cluster, "protocol", request.Protocol, "ours", api.Protocol)
	}
	source, _ := ctx.Value(sourceKey{}).(string)
	out, err := s.Exchange.Do(ctx, market.Join{
		TokenID: in.Body.TokenID, Hash: join.SecretHash(in.Body.Secret).String(), Cluster: who.Cluster,
		Key: in.Body.Key.String(), TLSKey: who.TLSKey.String(), Source: source,
	})
	if err != nil {
		return nil, wrap(err)
	}
	s.Log.Info("a cluster joined", "cluster", who.Cluster, "fingerprint", who.ClusterKey, "from", source, "state", out.Member.State)
	return s.issue(request.CSR, out.Member)
}

func (s *Server) issue(csr []byte, m *market.Member) (*body[api.Joined], error) {
	certificate, err := s.Authority.SignMember(csr, m.Cluster)
	if err != nil {
		return nil, api.Errorf(api.CodeInvalid, "%s", err).At("csr")
	}
	return &body[api.Joined]{api.Joined{Certificate: string(certificate), CA: string(s.Authority.CAPEM()), State: m.State}}, nil
}

// renew answers every member that was not revoked or removed: waiting for approval and being
// suspended are for a while.
func (s *Server) renew(ctx context.Context, in *struct{ Body api.Renewal }) (*body[api.Joined], error) {
	c := CallerOf(ctx)
	l := s.Exchange.View().Listing(c.Name)
	if c.Role != tlsid.RoleCluster || l == nil || l.Member == nil ||
		l.Member.State == api.MemberRevoked || l.Member.State == api.MemberRemoved {
		return nil, api.Errorf(api.CodeSuspended, "%s may not renew", c).Fix("join anew with a token")
	}
	return s.issue(in.Body.CSR, l.Member)
}
