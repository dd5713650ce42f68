package server

import (
	"context"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/trust"
)

// adopt takes a reservation that both parties signed and that this broker does not know.
func (s *Server) adopt(ctx context.Context, in *struct {
	ReservationPath
	Body api.Agreement
}) (*tagged[api.Reservation], error) {
	l, err := s.member(ctx)
	if err != nil {
		return nil, err
	}
	command, err := s.agreement(ctx, in.ID, l.Cluster, in.Body)
	if err != nil {
		return nil, wrap(err)
	}
	out, err := s.Exchange.Do(ctx, command)
	return s.answer(ctx, out, err)
}

// agreement verifies the documents of a reservation that both signed, as one party presents them.
// Errors: NotFound for a reservation of others; BadSignature, Invalid.
func (s *Server) agreement(ctx context.Context, id, caller string, in api.Agreement) (market.Adopt, error) {
	var claimed api.Assignment
	if err := trust.Claimed(in.Assignment, &claimed); err != nil {
		return market.Adopt{}, under("assignment", err)
	}
	if claimed.Reservation != id || claimed.Consumer != caller && claimed.Provider != caller ||
		claimed.Consumer == claimed.Provider {
		return market.Adopt{}, api.Errorf(api.CodeNotFound, "your cluster has no reservation %.80q", id)
	}
	var a api.Assignment
	if err := s.signedBy(ctx, id, claimed.Consumer, caller, in,
		in.Assignment, api.DocumentAssignment, &a); err != nil {
		return market.Adopt{}, unsigned("assignment", err)
	}
	var yes api.Acceptance
	if err := s.signedBy(ctx, id, claimed.Provider, caller, in,
		in.Acceptance, api.DocumentAcceptance, &yes); err != nil {
		return market.Adopt{}, unsigned("acceptance", err)
	}
	if yes.Reservation != id || yes.Generation != a.Generation ||
		yes.Assignment != clusterkey.Digest(in.Assignment).String() {
		return market.Adopt{}, api.Invalid("acceptance", "it is of another assignment").Fix("send both as they were signed")
	}
	if err := market.ValidCluster("id", id); err != nil {
		return market.Adopt{}, err
	}
	if err := s.adoptable(a); err != nil {
		return market.Adopt{}, err
	}
	size, err := amounts.ParseRequest("assignment.resources", a.Resources)
	if err != nil {
		return market.Adopt{}, err
	}
	out := market.Adopt{Assignment: a, Size: size, Document: in.Assignment, Acceptance: in.Acceptance, Caps: s.Caps}
	if a.Sale == nil {
		return out, nil
	}
	if out.Offer, err = trust.Offer(in.Offer, s.keysOf(a.Provider)...); err != nil {
		return market.Adopt{}, unsigned("offer", err)
	}
	return out, out.Offer.Covers(*a.Sale, a.Pool, size)
}

// signedBy verifies a party's document of an agreement. A document with a former key counts only if the
// party vouches for it with its current key, or if this server is the party's own connector and its
// Ledger has the document in force. A thief of a former key can sign documents with any date, so such a
// document alone proves nothing. Errors: BadSignature.
func (s *Server) signedBy(ctx context.Context, id, party, caller string,
	in api.Agreement, document, kind string, into any) error {
	keys := s.keysOf(party)
	key, err := trust.Verified(document, kind, into, keys...)
	if err != nil || key == keys[0] {
		return err
	}
	if s.InForce != nil && s.InForce(ctx, party, id, document) {
		return nil
	}
	if party != caller || in.Vouch == "" {
		return api.Errorf(api.CodeBadSignature,
			"%s: by a key that cluster %s has given up, and it does not vouch for it", kind, party)
	}
	return trust.Vouched(in.Vouch, keys[0], party, id, in.Assignment)
}

// unsigned is the error for a document that its party did not sign, or that is invalid.
func unsigned(field string, err error) error {
	if api.CodeOf(err) != api.CodeBadSignature {
		return under(field, err)
	}
	return api.Errorf(api.CodeBadSignature, "%s", err).At(field).Fix("send it as its party signed it")
}

// adoptable rejects an impossible assignment, even a signed one: two members may collude.
func (s *Server) adoptable(a api.Assignment) error {
	if err := market.ValidCluster("assignment.pool", a.Pool); err != nil {
		return err
	}
	for _, demand := range []struct {
		holds bool
		field string
	}{
		{a.Protocol >= 1 && a.Protocol <= api.Protocol, "protocol"},
		{a.Generation >= 1, "generation"},
		{a.Slice == market.SliceOf(a), "slice"},
		{a.Until.Sub(s.Exchange.Now().Go()) <= api.LongestDuration+time.Hour, "until"},
		{a.Expires.Sub(s.Exchange.Now().Go()) <= market.MaxApproval+market.DecideTime+market.SkewGrace, "expires"},
	} {
		if !demand.holds {
			return api.Invalid("assignment."+demand.field, "no provider accepts that").Fix("send what a provider accepted")
		}
	}
	return nil
}

// keysOf returns the current and former keys of a member.
func (s *Server) keysOf(cluster string) (keys []clusterkey.PublicKey) {
	l := s.Exchange.View().Listing(cluster)
	if l == nil || l.Member == nil {
		return nil
	}
	all := []string{l.Member.Key}
	for _, former := range l.Member.Former {
		all = append(all, former.Key)
	}
	for _, text := range all {
		if key, err := clusterkey.ParsePublicKey(text); err == nil {
			keys = append(keys, key)
		}
	}
	return keys
}
