package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

// letters are what this cluster and others say to each other on the way to a peering: signed, and believed by the
// pinned keys alone.
type letters struct {
	cluster string
	key     *clusterkey.Key
	former  []string // fingerprints of the keys that key succeeded
	market  *exchange.Exchange
	broker  transport.Broker
	trust   trust.Demand
	log     *slog.Logger
	// came tells that a peer has said something new.
	came func(peer string, role api.PeeringRole)

	mu    sync.Mutex
	heard map[string]*api.Handshake // the newest of each peering, by its name
	said  map[string]said
}

// said is what was last said, and when.
type said struct {
	content string
	at      time.Time
	answers *api.Handshake // what it answered
}

const (
	letterLasts = 10 * time.Minute
	// sayAgain is how often something is said that was not answered: the broker may have forgotten it.
	sayAgain = 10 * time.Second
)

// receive takes in a message that the broker passes on. What the pinned key did not sign is not looked at.
func (l *letters) receive(ctx context.Context, document string) {
	h, role, err := l.open(ctx, document)
	if err != nil && l.greet(ctx, document) {
		h, role, err = l.open(ctx, document)
	}
	if err != nil {
		l.log.Warn("a handshake message is not believed", "error", err)
		return
	}
	name := api.PeeringName(h.From, role)
	l.mu.Lock()
	// Times have whole seconds, and a handshake takes less: of the same second the last that came counts. What came by
	// another way already is nothing new.
	last := l.heard[name]
	newer := last == nil || last.FromKey != h.FromKey || !h.Expires.Before(&last.Expires) && !equality.Semantic.DeepEqual(last, h)
	if newer {
		l.heard[name] = h
	}
	l.mu.Unlock()
	if newer {
		l.came(h.From, role)
	}
}

// greet looks, where a message is by a key that is not known, whether its sender shows a new one, on what the broker says of a
// reservation that both have. It says whether there was one to look at.
func (l *letters) greet(ctx context.Context, document string) bool {
	from, err := trust.Sender(document)
	if err != nil {
		return false
	}
	if _, _, err := trust.Signer(ctx, l.market, document); err == nil {
		return false // the key is known; what is wrong is something else
	}
	shared := ""
	err = l.market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(l.cluster, 0) {
			if r.State.Counts() && (r.Consumer == from || r.Provider == from) {
				shared = r.ID
			}
		}
	})
	if err != nil || shared == "" || from == l.cluster {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // nothing else is heard meanwhile
	defer cancel()
	theirs, err := l.broker.Reservation(ctx, shared)
	if err != nil {
		return false
	}
	card := theirs.Payload.ProviderCard
	if theirs.Payload.Consumer == from {
		card = theirs.Payload.ConsumerCard
	}
	l.trust.Greet(ctx, l.market, card, from)
	return true
}

func (l *letters) open(ctx context.Context, document string) (*api.Handshake, api.PeeringRole, error) {
	from, key, err := trust.Signer(ctx, l.market, document)
	if err != nil {
		return nil, "", err
	}
	var h api.Handshake
	if err := clusterkey.Verify(document, api.DocumentHandshake, key, &h); err != nil {
		return nil, "", err
	}
	own := l.key.Public().Fingerprint().String()
	switch now := l.market.Now().Go(); {
	case h.From != from || h.To != l.cluster || h.ToKey != own && !slices.Contains(l.former, h.ToKey) || h.FromKey != key.Fingerprint().String():
		return nil, "", api.Errorf(api.CodeBadSignature, "the message of %s is for another cluster, or by another key", h.From)
	case !now.Before(h.Expires.Time):
		return nil, "", api.Errorf(api.CodeBadSignature, "the message of %s has expired", h.From)
	case h.Expires.Sub(now) > letterLasts+join.MaxSkew: // later ones would count as older until then
		return nil, "", api.Errorf(api.CodeBadSignature, "the message of %s expires in %s, too late", h.From, h.Expires.Sub(now).Round(time.Second))
	case h.Consumer == h.From:
		return &h, api.RoleConsumer, nil
	case h.Consumer == l.cluster:
		return &h, api.RoleProvider, nil
	}
	return nil, "", api.Errorf(api.CodeBadSignature, "the message of %s is of another peering", h.From)
}

// last is the newest message of a peer that has not expired, nil if there is none.
func (l *letters) last(peer string, role api.PeeringRole) *api.Handshake {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := api.PeeringName(peer, role)
	if h := l.heard[name]; h != nil && l.market.Now().Go().Before(h.Expires.Time) {
		return h
	}
	delete(l.heard, name)
	return nil
}

// forget drops what was said of a peering that is over.
func (l *letters) forget(peer string, role api.PeeringRole) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.heard, api.PeeringName(peer, role))
	delete(l.said, api.PeeringName(peer, role))
}

// say says what there is to say: at once if it is new or answers something new, and else again after a while.
// An open peering answers, and says nothing by itself but of a network that does not stand yet.
func (l *letters) say(ctx context.Context, peer string, role api.PeeringRole, p peering.Progress) error {
	if p.Say == nil {
		return nil
	}
	name, heard := api.PeeringName(peer, role), l.last(peer, role)
	content, err := digest(p)
	if err != nil {
		return err
	}
	l.mu.Lock()
	before := l.said[name]
	l.mu.Unlock()
	recent, asks := time.Since(before.at) < sayAgain, (p.Open || p.Through) && role == api.RoleProvider // of a network the consumer asks, and the provider answers
	switch same := before.content == content; {
	case same && asks && (!p.Repeat || recent):
		return nil
	case same && !asks && before.answers == heard && (p.Open || recent):
		return nil
	}
	key, err := trust.Key(ctx, l.market, peer)
	if err != nil {
		return err
	}
	consumer := l.cluster
	if role == api.RoleConsumer {
		consumer = peer
	}
	document, err := l.key.Sign(api.DocumentHandshake, api.Handshake{
		Protocol: api.Protocol, From: l.cluster, FromKey: l.key.Public().Fingerprint().String(),
		To: peer, ToKey: key.Fingerprint().String(), Consumer: consumer, Session: p.Session,
		Expires: metav1.NewTime(l.market.Now().Go().Add(letterLasts).UTC().Truncate(time.Second)), HandshakeContent: *p.Say,
	})
	if err != nil {
		return err
	}
	if err := l.broker.Say(ctx, peer, document); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said[name] = said{content, time.Now(), heard}
	return nil
}

// digest tells what is said from what was said before. A Tenant is signed anew each time, and is the same all the same.
func digest(p peering.Progress) (string, error) {
	kind := ""
	switch c := p.Say; {
	case c.Identity != nil:
		kind = "identity"
	case c.Tenant != nil:
		kind = "tenant"
	case c.Nonce != nil:
		kind = "nonce"
	}
	network, err := json.Marshal(p.Say.Network)
	return p.Session + kind + string(network), err
}
