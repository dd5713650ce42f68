package server

import (
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
// says it again.
type mail struct {
	mu      sync.Mutex
	letters map[address]letter
	number  uint64
	newest  map[string]uint64                // number of the newest to each cluster
	boxes   map[string]map[*mailbox]struct{} // open ones, by cluster
}

// address is between whom, in which direction of borrowing.
type address struct{ from, to, consumer string }

type letter struct {
	number   uint64
	document string
	expires  time.Time
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
	// maxLetters and maxLetter, in bytes, bound what is kept in memory.
	maxLetters = 20_000
	maxLetter  = 16 << 10
)

func (m *mail) open(cluster string, wake func()) *mailbox {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := &mailbox{mail: m, cluster: cluster, wake: wake}
	if m.boxes == nil {
		m.boxes, m.letters, m.newest = map[string]map[*mailbox]struct{}{}, map[address]letter{}, map[string]uint64{}
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
	if b.mail.newest[b.cluster] <= b.seen { // as nearly always: looking through all letters is dear where many write
		return events
	}
	var fresh []letter
	for at, l := range b.mail.letters {
		if at.to == b.cluster && l.number > b.seen && time.Now().Before(l.expires) {
			fresh = append(fresh, l)
		}
	}
	b.seen = b.mail.number
	slices.SortFunc(fresh, func(a, b letter) int { return int(a.number) - int(b.number) })
	for _, l := range fresh {
		events = append(events, api.WatchEvent{Type: api.WatchHandshake, Document: l.document})
	}
	return events
}

// post keeps a letter and wakes those who wait for it.
func (m *mail) post(at address, document string, expires time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.letters == nil {
		m.boxes, m.letters, m.newest = map[string]map[*mailbox]struct{}{}, map[address]letter{}, map[string]uint64{}
	}
	if m.letters[at].document == document {
		return nil
	}
	if len(m.letters) >= maxLetters {
		for at, l := range m.letters {
			if time.Now().After(l.expires) {
				delete(m.letters, at)
			}
		}
		if len(m.letters) >= maxLetters {
			return api.Errorf(api.CodeUnavailable, "more peerings are being made than this broker can pass on").Fix("try again")
		}
	}
	m.number++
	m.letters[at], m.newest[at.to] = letter{m.number, document, expires}, m.number
	for b := range m.boxes[at.to] {
		b.wake()
	}
	return nil
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
	err := s.Exchange.Read(ctx, func(m *market.State) {
		for _, r := range m.Live(h.Consumer) {
			found = found || r.Provider == provider && r.Consumer == h.Consumer && r.State.Counts() && r.Acceptance != ""
		}
	})
	if err == nil && !found {
		err = api.Errorf(api.CodeNotFound, "no reservation binds %.80q and %.80q", h.Consumer, provider).Fix("reserve first")
	}
	return wrap(err)
}
