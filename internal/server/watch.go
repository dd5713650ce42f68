package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
)

func (s *Server) watchRoutes() {
	huma.Register(s.api, operation("watch", http.MethodGet, "/watch",
		"Watch the caller's reservations, the membership of their other parties and, on request, the catalog: "+
			"NDJSON of WatchEvent. "+
			"A snapshot comes first, then changes. Bookmarks carry the token to resume from"), s.watch)
}

func (s *Server) watch(ctx context.Context, in *struct {
	Token   string `query:"token" maxLength:"128" doc:"resume after the bookmark that carried this token"`
	Catalog string `query:"catalog" maxLength:"128" doc:"also send the catalog: all of it (all), or the changes since the bookmark with this token"`
}) (*huma.StreamResponse, error) {
	l, err := s.member(ctx)
	if err != nil {
		return nil, err
	}
	cluster := l.Cluster
	lineage, revision, err := parseToken(in.Token)
	if err != nil {
		return nil, err
	}
	w, err := s.Exchange.Watch(ctx, cluster, lineage, revision)
	if err != nil {
		return nil, wrap(err)
	}
	var catalog *catalogCursor
	if in.Catalog != "" {
		if catalog, err = s.openCatalog(ctx, cluster, w, in.Catalog); err != nil {
			w.Close()
			return nil, wrap(err)
		}
	}
	if _, err := s.member(ctx); err != nil { // suspended since: the end of its watches may have missed this one
		w.Close()
		return nil, err
	}
	caller := CallerOf(ctx)
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer w.Close()
		r, answer := humago.Unwrap(hc)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		if !caller.Until.IsZero() { // a watch ends with its certificate
			var end context.CancelFunc
			ctx, end = context.WithDeadline(ctx, caller.Until)
			defer end()
		}
		EndCall(ctx) // watches have their own bound
		defer context.AfterFunc(w.Cut(), func() { time.AfterFunc(lastEventTime, cancel) })()
		defer s.watches.add(cluster, w, s.calls.bounds.Watches)()
		t := &stream{s: s, eventWriter: newEventWriter(ctx, answer, s.calls.bounds.Stall),
			watch: w, caller: caller, told: map[string]api.MemberState{}, catalog: catalog}
		t.run(ctx, revision == 0 || lineage != w.Lineage || revision > w.Revision)
	}}, nil
}

// lastEventTime is the time that an ending watch has to send its last event.
const lastEventTime = time.Second

// token encodes a lineage and a revision. An empty token is the beginning.
func token(lineage string, revision uint64) string {
	return lineage + "." + strconv.FormatUint(revision, 10)
}

func parseToken(text string) (lineage string, revision uint64, err error) {
	if text == "" {
		return "", 0, nil
	}
	lineage, number, ok := strings.Cut(text, ".")
	if revision, err = strconv.ParseUint(number, 10, 64); !ok || err != nil {
		return "", 0, api.Invalid("token", "%.80q is not the token of a bookmark", text).Fix("watch without a token")
	}
	return lineage, revision, nil
}

// stream is the answer to one watch.
type stream struct {
	s *Server
	eventWriter
	watch   *exchange.Watch
	caller  Caller
	told    map[string]api.MemberState // the last sent membership of other parties, by cluster
	chosen  *market.Enabled            // the last sent choice of the caller
	relayed uint64                     // the number of the last handshake message that was sent
	catalog *catalogCursor             // nil: the watch is without the catalog
}

func (t *stream) run(ctx context.Context, complete bool) {
	w := t.watch
	t.chosen = t.choice()
	opening := &api.WatchEvent{Type: api.WatchSnapshot,
		Complete: complete, Providers: providers(t.chosen)}
	changed, last, checked := w.Snapshot, w.Revision, time.Now()
	quiet := t.s.calls.bounds.Quiet
	w.Snapshot = nil // a watch lasts for days and must not keep old records
	for t.tell(opening, changed, last) == nil {
		next, cancel := context.WithTimeout(ctx, quiet)
		var revision uint64
		var err error
		changed, revision, err = w.Next(next)
		cancel()
		opening = nil
		if now := time.Now(); err == nil && now.Sub(checked) > quiet || errors.Is(err, context.DeadlineExceeded) {
			checked = now
			if t.caller.Still != nil {
				err = cmp.Or(t.caller.Still(), err)
			}
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, context.DeadlineExceeded):
			changed = nil
		case err != nil:
			end := api.WatchEvent{Type: api.WatchEnd, Error: ended(err)}
			_ = t.send(func(events *events) { events.add(end) })
			return
		default:
			last = revision
		}
	}
}

// ended returns the reason for which a watch ends.
func ended(err error) *api.Error {
	if errors.Is(err, exchange.ErrGivesWay) {
		return api.Errorf(api.CodeTooManyRequests, "%s", err).Fix("open fewer watches: one is enough")
	}
	return api.Errorf(api.CodeUnavailable, "%s", err).Fix("watch again with the last token; agents do so by themselves")
}

// tell writes the opening event, if there is one, the changed reservations, memberships, handshake
// messages and catalog changes, and then the bookmark.
func (t *stream) tell(opening *api.WatchEvent,
	changed []*market.Reservation, revision uint64) error {
	return t.send(func(events *events) {
		if opening != nil {
			events.add(*opening)
		}
		if now := t.choice(); now != t.chosen {
			t.chosen = now
			events.add(api.WatchEvent{Type: api.WatchChoice, Providers: providers(now)})
		}
		t.tellReservations(events, changed)
		t.tellMemberships(events, t.watch.ChangedParties())
		t.tellHandshakes(events)
		if t.catalog != nil {
			t.catalog.write(t.watch, events)
		}
		events.add(api.WatchEvent{Type: api.WatchBookmark,
			Token: token(t.watch.Lineage, revision), Grown: t.s.Queue.Grown()})
	})
}

// choice returns which providers the caller chose, nil if all may serve it.
func (t *stream) choice() *market.Enabled {
	l := t.s.Exchange.View().Listing(t.caller.Name)
	if l == nil || l.Member == nil {
		return t.chosen
	}
	return l.Member.Enabled
}

func providers(chosen *market.Enabled) *[]string {
	if chosen == nil {
		return nil
	}
	return &chosen.Providers
}

func (t *stream) tellReservations(events *events, records []*market.Reservation) {
	for _, r := range records {
		if events.err == nil && r.Concerns(t.caller.Name) {
			object := t.s.reservation(r, nil, t.caller.Name, t.watch.Lineage)
			events.add(api.WatchEvent{Type: api.WatchReservation, Object: &object})
		}
	}
}

// tellMemberships writes the memberships of the other parties of the caller's reservations that
// changed since the last write. It includes clusters that are not visible, because their partners
// know them.
func (t *stream) tellMemberships(events *events, parties []string) {
	view := t.s.Exchange.View()
	for _, party := range parties {
		l := view.Listing(party)
		if l == nil || l.Member == nil || l.Member.State == t.told[party] {
			continue
		}
		t.told[party] = l.Member.State
		events.add(api.WatchEvent{Type: api.WatchStanding,
			Standing: &api.Membership{Cluster: party, State: l.Member.State}})
	}
}

func (t *stream) tellHandshakes(events *events) {
	documents, last := t.s.relay.after(t.relayed, t.caller.Name)
	t.relayed = last
	for _, document := range documents {
		events.add(api.WatchEvent{Type: api.WatchHandshake, Document: document})
	}
}
