package authority

import (
	"context"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// books is a broker with the three as members; each sends it every document.
type books struct {
	*servertest.Federation
	*cast
	members []*servertest.Member
	r       client.Reservation
	t       *testing.T
}

// broker takes a contract of rome's with milan so far at the broker.
func broker(t *testing.T, c *cast, until api.State) *books {
	t.Helper()
	ctx := t.Context()
	b := &books{Federation: servertest.Start(t, servertest.Options{}), cast: c, t: t}
	for _, name := range []string{"rome", "milan", "oslo"} {
		b.members = append(b.members, b.Join(name))
	}
	rome, milan := b.members[0], b.members[1]
	c.formerRome, c.formerMilan = rome.Rotate(), milan.Rotate()
	c.rome, c.milan, c.oslo = rome.Party, milan.Party, b.members[2].Party
	rome.ShowCard(api.Properties{Region: "eu"})
	milan.ShowCard(api.Properties{Region: "eu"})
	milan.Advertise("8")
	offer, _ := c.terms()
	err := milan.PublishOffer(ctx, "milan", "web", offer)
	request := transporttest.Request("2")
	request.Resources, request.Purchase = nil, &api.Purchase{Seller: "milan",
		Offer: "web", Plan: "spot", Units: 1, MaxPrice: price()}
	for _, step := range []struct {
		before []api.State
		do     func() (client.Reservation, error)
	}{
		{nil, func() (client.Reservation, error) { return rome.Reserve(ctx, "key", request) }},
		{[]api.State{"signed", api.Reserved, api.Releasing},
			func() (client.Reservation, error) { return rome.Confirm(ctx, b.r.ID, rome.Assign(b.r)) }},
		{[]api.State{api.Reserved, api.Releasing}, func() (client.Reservation,
			error) {
			return milan.Accept(ctx, b.r.ID, milan.Agree(b.r))
		}},
		{[]api.State{api.Releasing}, func() (client.Reservation, error) {
			return rome.Release(ctx, b.r.ID, rome.End(b.r, api.ReasonReleased))
		}},
	} {
		wanted := step.before == nil
		for _, s := range step.before {
			wanted = wanted || s == until
		}
		if wanted && err == nil {
			b.r, err = step.do()
		}
	}
	if err == nil {
		b.r, err = rome.Reservation(ctx, b.r.ID) // as its consumer sees it
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// shown is what it changes that each member shows a document.
func (b *books) shown(t *testing.T, show func(context.Context, *servertest.Member)) string {
	t.Helper()
	before := see(t, b.Exchange)
	for _, m := range b.members {
		show(t.Context(), m)
	}
	return effect(before, see(t, b.Exchange))
}

// subject is the cluster in a signer's cards: its own, or the one that it impersonates.
func (b *books) subject(by *transporttest.Party) *transporttest.Party {
	if by != nil && by.ID == "milan" {
		return b.milan
	}
	return b.rome
}

// brokered is the try of a document by each member at a broker that has a contract so far.
func brokered(until api.State, document func(*books, *transporttest.Party) func(context.Context,
	*servertest.Member)) func(*testing.T, *cast, int) string {
	return func(t *testing.T, c *cast, by int) string {
		b := broker(t, c, until)
		return b.shown(t, document(b, c.signer(by)))
	}
}

// said is the try of what no document says: it counts by the certificate of who calls. Who has
// given up a key or poses as another has none, and calls without.
func said(until api.State, say func(*books, *servertest.Member)) func(*testing.T, *cast, int) string {
	return func(t *testing.T, c *cast, by int) string {
		b := broker(t, c, until)
		caller := &servertest.Member{Client: b.Stranger()}
		for _, m := range b.members {
			if m.Party == c.signer(by) {
				caller = m
			}
		}
		before := see(t, b.Exchange)
		say(b, caller)
		return effect(before, see(t, b.Exchange))
	}
}

var atTheBroker = map[string]func(*testing.T, *cast, int) string{
	"card": brokered("", func(b *books, by *transporttest.Party) func(context.Context, *servertest.Member) {
		subject := b.subject(by)
		document := cardOf(subject, by)
		return func(ctx context.Context, m *servertest.Member) { _ = m.PutCard(ctx, subject.ID, document) }
	}),
	"card of a deputy": brokered("", func(b *books, by *transporttest.Party) func(context.Context, *servertest.Member) {
		subject := b.subject(by)
		document := legacyOf(subject, by)
		return func(ctx context.Context, m *servertest.Member) { _ = m.PutCard(ctx, subject.ID, document) }
	}),
	"rotation": brokered("", func(b *books, by *transporttest.Party) func(context.Context, *servertest.Member) {
		subject := b.subject(by)
		document := successorOf(b.t, subject, by)
		return func(ctx context.Context, m *servertest.Member) { _ = m.PutCard(ctx, subject.ID, document) }
	}),
	"renewal": brokered("", func(b *books, by *transporttest.Party) func(context.Context, *servertest.Member) {
		return b.renews(by, b.subject(by))
	}),
	"assignment": brokered("", func(b *books, by *transporttest.Party) func(context.Context, *servertest.Member) {
		a := b.rome.Assignment(b.r)
		a.ConsumerKey = fingerprint(by, b.rome)
		document := sign(by, b.rome, api.DocumentAssignment, a)
		return func(ctx context.Context, m *servertest.Member) { _, _ = m.Confirm(ctx, b.r.ID, document) }
	}),
	"change": brokered(api.Reserved, func(b *books, by *transporttest.Party) func(context.Context, *servertest.Member) {
		a := b.rome.Assignment(b.r)
		a.Generation, a.ConsumerKey = a.Generation+1, fingerprint(by, b.rome)
		a.Until, a.Begins, a.Expires = transporttest.Seconds(a.Until.Add(time.Hour)), transporttest.Seconds(time.Now()), transporttest.Seconds(time.Now().Add(market.HoldTime))
		document := sign(by, b.rome, api.DocumentAssignment, a)
		return func(ctx context.Context, m *servertest.Member) { _, _ = m.Confirm(ctx, b.r.ID, document) }
	}),
	"acceptance": brokered("signed", func(b *books, by *transporttest.Party) func(context.Context, *servertest.Member) {
		document := sign(by, b.milan, api.DocumentAcceptance, b.milan.Acceptance(b.r))
		return func(ctx context.Context, m *servertest.Member) { _, _ = m.Accept(ctx, b.r.ID, document) }
	}),
	"end": brokered(api.Reserved, func(b *books, by *transporttest.Party) func(context.Context, *servertest.Member) {
		document := b.endOf(by, b.rome, b.r.ID, b.r.Payload.Assignment, b.r.Payload.Generation)
		return func(ctx context.Context, m *servertest.Member) { _, _ = m.Release(ctx, b.r.ID, document) }
	}),
	"end of another assignment": brokered(api.Reserved,
		func(b *books, by *transporttest.Party) func(context.Context, *servertest.Member) {
			document := b.endOf(by, b.rome, b.r.ID, "another", b.r.Payload.Generation+1)
			return func(ctx context.Context, m *servertest.Member) { _, _ = m.Release(ctx, b.r.ID, document) }
		}),
	"reclaim": brokered(api.Reserved, func(b *books, by *transporttest.Party) func(context.Context, *servertest.Member) {
		document := b.reclaimOf(by, b.r.ID, b.r.Payload.Assignment, time.Now())
		return func(ctx context.Context, m *servertest.Member) { _, _ = m.Release(ctx, b.r.ID, document) }
	}),
	"reclaim of another assignment": brokered(api.Reserved,
		func(b *books, by *transporttest.Party) func(context.Context, *servertest.Member) {
			document := b.reclaimOf(by, b.r.ID, "another", time.Now())
			return func(ctx context.Context, m *servertest.Member) { _, _ = m.Release(ctx, b.r.ID, document) }
		}),
	"offer": brokered("", func(b *books, by *transporttest.Party) func(context.Context, *servertest.Member) {
		document := sign(by, b.milan, api.DocumentOffer, api.SignedOffer{Protocol: api.Protocol,
			Seller: "milan", Name: "other", Version: 1, Offer: transporttest.WebOffer("0.10")})
		return func(ctx context.Context, m *servertest.Member) { _ = m.PublishOffer(ctx, "milan", "other", document) }
	}),
	"assignment, shown again": brokered("", func(b *books, by *transporttest.Party) func(context.Context,
		*servertest.Member) {
		d := transporttest.NewDeal(b.rome, b.milan, "r-lost", "2", time.Now())
		a := b.rome.Assignment(*d.Shown())
		a.ConsumerKey = fingerprint(by, b.rome)
		shown := d.SignedAs(sign(by, b.rome, api.DocumentAssignment, a))
		return b.adopts(api.Agreement{Assignment: shown.Payload.Assignment, Acceptance: b.milan.Agree(*shown)})
	}),
	"acceptance, shown again": brokered("", func(b *books, by *transporttest.Party) func(context.Context,
		*servertest.Member) {
		shown := transporttest.NewDeal(b.rome, b.milan, "r-lost", "2", time.Now()).Signed()
		return b.adopts(api.Agreement{Assignment: shown.Payload.Assignment,
			Acceptance: sign(by, b.milan, api.DocumentAcceptance, b.milan.Acceptance(*shown))})
	}),
	"vouch for an acceptance": brokered("", func(b *books, by *transporttest.Party) func(context.Context,
		*servertest.Member) {
		shown := transporttest.NewDeal(b.rome, b.milan, "r-lost", "2", time.Now()).Signed()
		return b.adopts(api.Agreement{Assignment: shown.Payload.Assignment,
			Acceptance: b.formerMilan.Agree(*shown), Vouch: sign(by, b.milan, api.DocumentVouch,
				api.Vouch{Protocol: api.Protocol, Cluster: "milan", Reservation: "r-lost",
					Assignment: clusterkey.Digest(shown.Payload.Assignment).String()})})
	}),
	"refusal": said("signed", func(b *books, m *servertest.Member) {
		_, _ = m.Refuse(b.t.Context(), b.r.ID, api.Refusal{Generation: b.r.Payload.Generation, Reason: api.ReasonPolicy})
	}),
	"Active": said(api.Reserved, func(b *books, m *servertest.Member) {
		_, _ = m.Progress(b.t.Context(), b.r.ID, api.Active)
	}),
	"Released": said(api.Releasing, func(b *books, m *servertest.Member) {
		_, _ = m.Progress(b.t.Context(), b.r.ID, api.Released)
	}),
}

// renews asks for a certificate of a cluster's, for a key of the signer's choice.
func (b *books) renews(by, subject *transporttest.Party) func(context.Context, *servertest.Member) {
	tlsKey, err := tlsid.NewKey()
	if err != nil {
		b.t.Fatal(err)
	}
	csr, err := tlsid.NewCSR(tlsKey)
	if err != nil {
		b.t.Fatal(err)
	}
	shown := subject
	if signs(by) {
		shown = by
	}
	renewal := join.Renewal{Cluster: subject.ID, Key: shown.Key.Public(),
		Rotations: shown.Rotations, Request: sign(by, subject, join.RenewalKind, join.RenewalRequest{
			Protocol: api.Protocol, Federation: b.Authority.Federation(), Cluster: subject.ID, CSR: csr, Time: time.Now().UTC(),
		})}
	return func(ctx context.Context, m *servertest.Member) { _, _ = m.Client.Renew(ctx, renewal) }
}

func (b *books) adopts(a api.Agreement) func(context.Context, *servertest.Member) {
	return func(ctx context.Context, m *servertest.Member) { _, _ = m.Adopt(ctx, "r-lost", a) }
}
