package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// relay passes handshake messages between clusters to the watch of the receiver. It keeps only the
// newest message of each direction of each pair, in memory, until it expires: a sender repeats a
// message until it gets an answer. The kept bytes are bounded. At the bound, the relay drops the
// oldest message of the sender with the most bytes.
type relay struct {
	mu       sync.Mutex
	messages map[string]map[route]message // by receiver
	number   uint64
	bytes    int
	swept    time.Time // when expired messages were last dropped
	senders  map[string]*sender
}

// route is the sender and the receiver of a message, and which of them borrows.
type route struct{ from, to, consumer string }

type message struct {
	number   uint64
	document string
	expires  time.Time
}

// sender counts the kept messages of one cluster.
type sender struct {
	messages map[route]struct{}
	bytes    int
}

const (
	// maxMessageLife bounds the time until a message expires.
	maxMessageLife = 15 * time.Minute
	// maxRelayed bounds the bytes of all kept messages, maxMessage those of one. Each message counts
	// as smallestMessage at least.
	maxRelayed      = 64 << 20
	maxMessage      = 16 << 10
	smallestMessage = 1 << 10
)

func (l message) bytes() int { return max(len(l.document), smallestMessage) }

// after returns the messages to a cluster that came after the one with a number, oldest first, and
// the number of the last one.
func (m *relay) after(number uint64, cluster string) (documents []string, last uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var fresh []message
	for _, l := range m.messages[cluster] {
		if l.number > number && time.Now().Before(l.expires) {
			fresh = append(fresh, l)
		}
	}
	slices.SortFunc(fresh, func(a, b message) int { return cmp.Compare(a.number, b.number) })
	for _, l := range fresh {
		documents = append(documents, l.document)
	}
	return documents, m.number
}

// post keeps a message. Errors: Unavailable at the bound, if the sender has the most bytes itself.
func (m *relay) post(key route, document string, expires time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.messages == nil {
		m.messages, m.senders = map[string]map[route]message{}, map[string]*sender{}
	}
	if m.messages[key.to][key].document == document {
		return nil
	}
	m.number++
	next := message{m.number, document, expires}
	m.drop(key)
	if now := time.Now(); m.bytes+next.bytes() > maxRelayed && now.Sub(m.swept) >= time.Second {
		m.swept = now
		m.dropExpired(now)
	}
	for m.bytes+next.bytes() > maxRelayed {
		most := m.largest()
		if own := m.senders[key.from]; own != nil && own.bytes >= m.senders[most].bytes {
			refused("handshake_messages")
			return api.Errorf(api.CodeUnavailable, "cluster %s has sent more messages than this broker can keep", key.from).
				Fix("try again")
		}
		refused("handshake_messages")
		m.drop(m.oldest(most))
	}
	m.keep(key, next)
	return nil
}

func (m *relay) keep(key route, l message) {
	if m.messages[key.to] == nil {
		m.messages[key.to] = map[route]message{}
	}
	if m.senders[key.from] == nil {
		m.senders[key.from] = &sender{messages: map[route]struct{}{}}
	}
	m.messages[key.to][key] = l
	m.senders[key.from].messages[key] = struct{}{}
	m.senders[key.from].bytes += l.bytes()
	m.bytes += l.bytes()
}

func (m *relay) drop(key route) {
	l, kept := m.messages[key.to][key]
	if !kept {
		return
	}
	m.bytes -= l.bytes()
	if delete(m.messages[key.to], key); len(m.messages[key.to]) == 0 {
		delete(m.messages, key.to)
	}
	from := m.senders[key.from]
	from.bytes -= l.bytes()
	if delete(from.messages, key); len(from.messages) == 0 {
		delete(m.senders, key.from)
	}
}

func (m *relay) dropExpired(now time.Time) {
	for _, received := range m.messages {
		for key, l := range received {
			if now.After(l.expires) {
				m.drop(key)
			}
		}
	}
}

// largest returns the sender with the most bytes.
func (m *relay) largest() (name string) {
	for sender, s := range m.senders {
		if most := m.senders[name]; most == nil || s.bytes > most.bytes || s.bytes == most.bytes && sender < name {
			name = sender
		}
	}
	return name
}

// oldest returns the route of a sender's oldest message.
func (m *relay) oldest(from string) (oldest route) {
	number := m.number + 1
	for key := range m.senders[from].messages {
		if l := m.messages[key.to][key]; l.number < number {
			oldest, number = key, l.number
		}
	}
	return oldest
}

func (s *Server) relayRoutes() {
	huma.Register(s.api, operation("say-handshake", http.MethodPut, "/clusters/{cluster}/handshake",
		"Pass a signed handshake message on to a cluster with which the caller shares a reservation", noContent),
		s.postHandshake)
}

func (s *Server) postHandshake(ctx context.Context, in *struct {
	ClusterPath
	Body api.SignedDocument
}) (*struct{}, error) {
	l, err := s.member(ctx)
	if err != nil {
		return nil, err
	}
	var h api.Handshake
	if err := s.verifyRelayed(in.Body.Document, api.DocumentHandshake, l.Member, &h); err != nil {
		return nil, err
	}
	now := s.Exchange.Now().Go()
	switch {
	case len(in.Body.Document) > maxMessage:
		return nil, api.Errorf(api.CodeTooLarge, "the message has %d bytes", len(in.Body.Document)).At("document").
			Fix("send at most %d", maxMessage)
	case h.From != l.Cluster || h.To != in.Cluster || h.Consumer != h.From && h.Consumer != h.To:
		return nil, api.Invalid("document", "it is from %.80q to %.80q", h.From, h.To).
			Fix("sign a message from %s to %.80q", l.Cluster, in.Cluster)
	case !now.Before(h.Expires.Time) || h.Expires.Sub(now) > maxMessageLife:
		return nil, api.Invalid("document.expires", "%s", h.Expires.UTC().Format(time.RFC3339)).
			Fix("let it expire within %s", maxMessageLife)
	}
	if err := s.checkDeal(ctx, h); err != nil {
		return nil, err
	}
	err = s.relay.post(route{h.From, h.To, h.Consumer}, in.Body.Document, h.Expires.Time)
	s.watches.wake(h.To)
	return nil, err
}

// checkDeal rejects a message between clusters without a reservation that binds both, so that no
// member can write to strangers.
func (s *Server) checkDeal(ctx context.Context, h api.Handshake) error {
	provider := h.From
	if h.Consumer == h.From {
		provider = h.To
	}
	found := false
	err := s.Exchange.Read(ctx, func(m *market.State) { found = m.HasDeal(h.Consumer, provider) })
	if err == nil && !found {
		err = api.Errorf(api.CodeNotFound, "no reservation binds %.80q and %.80q", h.Consumer, provider).Fix("reserve first")
	}
	return wrap(err)
}
