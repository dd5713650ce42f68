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

// mail is what clusters say to each other on the way to a peering, passed on to whoever watches. Of each
// direction of each pair only the newest is kept, in memory, until it expires: who has not been answered
// says it again. What is kept is bounded in bytes. Where that is reached, the sender that has most gives way.
type mail struct {
	mu      sync.Mutex
	letters map[string]map[address]letter // by receiver
	number  uint64
	bytes   int
	swept   time.Time // when what had expired was last dropped
	senders map[string]*sender
	boxes   map[string]map[*mailbox]struct{} // open ones, by cluster
}

// address is between whom, in which direction of borrowing.
type address struct{ from, to, consumer string }

type letter struct {
	number   uint64
	document string
	expires  time.Time
}

// sender is what is kept of one cluster.
type sender struct {
	letters map[address]struct{}
	bytes   int
}

// mailbox is where one watch reads.
type mailbox struct {
	mail    *mail
	cluster string
	wake    func()
	seen    uint64
}

const (
	// longestHandshake is how far ahead a message may expire.
	longestHandshake = 15 * time.Minute
	// maxMail bounds in bytes what is kept in memory, and maxLetter one letter. Each counts for smallestLetter at least.
	maxMail        = 64 << 20
	maxLetter      = 16 << 10
	smallestLetter = 1 << 10
)

func (l letter) bytes() int { return max(len(l.document), smallestLetter) }

func (m *mail) open(cluster string, wake func()) *mailbox {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := &mailbox{mail: m, cluster: cluster, wake: wake}
	if m.boxes == nil {
		m.boxes = map[string]map[*mailbox]struct{}{}
	}
	if m.boxes[cluster] == nil {
		m.boxes[cluster] = map[*mailbox]struct{}{}
	}
	m.boxes[cluster][b] = struct{}{}
	return b
}

func (b *mailbox) close() {
	b.mail.mu.Lock()
	defer b.mail.mu.Unlock()
	delete(b.mail.boxes[b.cluster], b)
	if len(b.mail.boxes[b.cluster]) == 0 {
		delete(b.mail.boxes, b.cluster)
	}
}

// read appends what has come since it last read, oldest first.
func (b *mailbox) read(events []api.WatchEvent) []api.WatchEvent {
	b.mail.mu.Lock()
	defer b.mail.mu.Unlock()
	var fresh []letter
	for _, l := range b.mail.letters[b.cluster] {
		if l.number > b.seen && time.Now().Before(l.expires) {
			fresh = append(fresh, l)
		}
	}
	b.seen = b.mail.number
	slices.SortFunc(fresh, func(a, b letter) int { return cmp.Compare(a.number, b.number) })
	for _, l := range fresh {
		events = append(events, api.WatchEvent{Type: api.WatchHandshake, Document: l.document})
	}
	return events
}

// post keeps a letter and wakes those who wait for it. Errors: Unavailable where nothing more can be kept, and the sender itself has most.
func (m *mail) post(at address, document string, expires time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.letters == nil {
		m.letters, m.senders = map[string]map[address]letter{}, map[string]*sender{}
	}
	if m.letters[at.to][at].document == document {
		return nil
	}
	m.number++
	next := letter{m.number, document, expires}
	m.drop(at)
	if now := time.Now(); m.bytes+next.bytes() > maxMail && now.Sub(m.swept) >= time.Second {
		m.swept = now
		m.dropExpired(now)
	}
	for m.bytes+next.bytes() > maxMail {
		most := m.largest()
		if own := m.senders[at.from]; own != nil && own.bytes >= m.senders[most].bytes {
			refused("handshake_messages")
			return api.Errorf(api.CodeUnavailable, "cluster %s has said more to others than this broker can pass on", at.from).Fix("try again")
		}
		refused("handshake_messages")
		m.drop(m.oldest(most))
	}
	m.keep(at, next)
	for b := range m.boxes[at.to] {
		b.wake()
	}
	return nil
}

func (m *mail) keep(at address, l letter) {
	if m.letters[at.to] == nil {
		m.letters[at.to] = map[address]letter{}
	}
	if m.senders[at.from] == nil {
		m.senders[at.from] = &sender{letters: map[address]struct{}{}}
	}
	m.letters[at.to][at] = l
	m.senders[at.from].letters[at] = struct{}{}
	m.senders[at.from].bytes += l.bytes()
	m.bytes += l.bytes()
}

func (m *mail) drop(at address) {
	l, kept := m.letters[at.to][at]
	if !kept {
		return
	}
	m.bytes -= l.bytes()
	if delete(m.letters[at.to], at); len(m.letters[at.to]) == 0 {
		delete(m.letters, at.to)
	}
	from := m.senders[at.from]
	from.bytes -= l.bytes()
	if delete(from.letters, at); len(from.letters) == 0 {
		delete(m.senders, at.from)
	}
}

func (m *mail) dropExpired(now time.Time) {
	for _, to := range m.letters {
		for at, l := range to {
			if now.After(l.expires) {
				m.drop(at)
			}
		}
	}
}

// largest is the sender of whom most is kept.
func (m *mail) largest() (name string) {
	for one, s := range m.senders {
		if most := m.senders[name]; most == nil || s.bytes > most.bytes || s.bytes == most.bytes && one < name {
			name = one
		}
	}
	return name
}

// oldest is the oldest letter of a sender.
func (m *mail) oldest(from string) (oldest address) {
	number := m.number + 1
	for at := range m.senders[from].letters {
		if l := m.letters[at.to][at]; l.number < number {
			oldest, number = at, l.number
		}
	}
	return oldest
}

func (s *Server) mailRoutes() {
	huma.Register(s.api, operation("say-handshake", http.MethodPut, "/clusters/{cluster}/handshake",
		"Pass a signed handshake message on to a cluster with which the caller shares a reservation", noContent), s.say)
}

func (s *Server) say(ctx context.Context, in *struct {
	ClusterPath
	Body api.SignedDocument
}) (*struct{}, error) {
	l, err := s.member(ctx)
	if err != nil {
		return nil, err
	}
	var h api.Handshake
	if err := s.verify(in.Body.Document, api.DocumentHandshake, l.Member.Key, &h); err != nil {
		return nil, err
	}
	now := s.Exchange.Now().Go()
	switch {
	case len(in.Body.Document) > maxLetter:
		return nil, api.Errorf(api.CodeTooLarge, "the message has %d bytes", len(in.Body.Document)).At("document").Fix("send at most %d", maxLetter)
	case h.From != l.Cluster || h.To != in.Cluster || h.Consumer != h.From && h.Consumer != h.To:
		return nil, api.Invalid("document", "it is from %.80q to %.80q", h.From, h.To).Fix("sign a message from %s to %.80q", l.Cluster, in.Cluster)
	case !now.Before(h.Expires.Time) || h.Expires.Sub(now) > longestHandshake:
		return nil, api.Invalid("document.expires", "%s", h.Expires.UTC().Format(time.RFC3339)).Fix("let it expire within %s", longestHandshake)
	}
	if err := s.trade(ctx, h); err != nil {
		return nil, err
	}
	return nil, s.mail.post(address{h.From, h.To, h.Consumer}, in.Body.Document, h.Expires.Time)
}

// trade refuses those who have no reservation between them that both sides are bound by: nobody writes to strangers.
func (s *Server) trade(ctx context.Context, h api.Handshake) error {
	provider := h.From
	if h.Consumer == h.From {
		provider = h.To
	}
	found := false
	err := s.Exchange.Read(ctx, func(m *market.State) { found = m.Deal(h.Consumer, provider) })
	if err == nil && !found {
		err = api.Errorf(api.CodeNotFound, "no reservation binds %.80q and %.80q", h.Consumer, provider).Fix("reserve first")
	}
	return wrap(err)
}
