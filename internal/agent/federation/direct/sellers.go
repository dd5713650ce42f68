package direct

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/peeraddress"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/trust"
)

const (
	// lookEvery is how often Run looks which sessions are needed.
	lookEvery = 2 * time.Second
	// lostAfter is how long a broker must be lost before its sellers are called directly.
	lostAfter = 5 * time.Second
	// keepChosen is how long a session stays open after Choose returned it.
	keepChosen = time.Minute
	// answerWithin bounds how long Catalog waits for the connectors.
	answerWithin = 5 * time.Second
)

// Bounds on what the agent reads of the lists of connectors, in bytes: of one, which has what one seller
// offers, and of all that are asked at the same time. Decoded, a list takes at most about twice as much
// memory. All of them have at most a part of the memory that Go may take.
const maxList, maxLists, partOfLists = 8 << 20, 32 << 20, 16

// SellersOptions say for which cluster connectors are called.
type SellersOptions struct {
	// Cluster is this cluster, and Key its key.
	Cluster string
	Key     *clusterkey.Key
	// Ledger has the addresses and keys of the sellers that this cluster knows.
	Ledger *exchange.Exchange
	// Sessions has those with brokers, and gets those with connectors.
	Sessions *session.Sessions
	// Addresses checks the addresses of connectors.
	Addresses *peeraddress.Checker
	// Trust decides which keys of sellers count.
	Trust trust.Demand
	// Contacted is called after each contact with a seller, with the error if it failed. May be nil.
	Contacted func(seller string, err error)
	Clock     clock.Clock
	Log       *slog.Logger
}

// Sellers are the connectors that this cluster calls. [Sellers.Run] opens a session with a connector while
//   - this cluster has a reservation that was made there;
//   - an admin added it by its address, until the two have met;
//   - a broker is lost, and its cluster is the seller of a bound reservation that was made at that broker. So
//     the reservation can change and end meanwhile.
//
// [Sellers.Choose] says through which session a request is made.
type Sellers struct {
	SellersOptions
	ctx  context.Context // of the connections; ends with Run
	stop context.CancelFunc

	connections connections

	mu   sync.Mutex
	open map[string]*seller // by name; Run closes those that are not needed

	choosing sync.Mutex           // held while a choice is recorded
	choices  map[string]*[]string // by Via, those that the Ledger has not recorded yet
}

// seller is one with whose connector a session is open.
type seller struct {
	*session.Session
	url    string    // the URL of the connector
	chosen time.Time // when Choose last returned it; zero: never
}

// NewSellers returns Sellers without a session. It works until Run ends.
func NewSellers(o SellersOptions) *Sellers {
	ctx, stop := context.WithCancel(context.Background())
	return &Sellers{SellersOptions: o, ctx: ctx, stop: stop, open: map[string]*seller{}, choices: map[string]*[]string{},
		connections: connections{by: map[string]*connection{}}}
}

// Run opens and closes sessions as they are needed, until ctx ends.
func (s *Sellers) Run(ctx context.Context) error {
	for {
		s.recordRest(ctx)
		s.look(ctx)
		select {
		case <-ctx.Done():
			s.closeAll()
			return nil
		case <-s.Clock.After(lookEvery):
		}
	}
}

// look opens the sessions that are needed, and closes the others.
func (s *Sellers) look(ctx context.Context) {
	needed := map[string]bool{}
	err := s.Ledger.Read(ctx, func(m *market.State) {
		for _, known := range m.Members() {
			if known.Address != "" && (known.Key == "" || known.Expected() != "") { // a key that it has not shown
				needed[known.Cluster] = true
			}
		}
		for _, r := range m.Of(s.Cluster, 0) {
			if r.Consumer != s.Cluster || r.Provider == "" || !r.State.Counts() {
				continue
			}
			if !session.IsBroker(r.Via) || r.Acceptance != "" && s.Sessions.IsLost(r.Via, lostAfter) {
				needed[r.Provider] = true
			}
		}
	})
	if err != nil {
		return // the Ledger is closed: the agent ends
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, seller := range s.open {
		if !needed[name] && s.Clock.Since(seller.chosen) > keepChosen {
			s.Sessions.Remove(seller.Session)
			delete(s.open, name)
		}
	}
	for name := range needed {
		if _, err := s.session(ctx, name); err != nil {
			s.Log.Debug("the connector of a seller cannot be called", "seller", name, "error", err)
		}
	}
	s.closeUnknown(ctx)
}

func (s *Sellers) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
	for name, seller := range s.open {
		s.Sessions.Remove(seller.Session)
		delete(s.open, name)
	}
	s.closeConnections()
}

// session returns the session with a seller. It opens it if it is not open. The lock is held.
func (s *Sellers) session(ctx context.Context, name string) (*seller, error) {
	url, err := s.connectorOf(ctx, name)
	before := s.open[name]
	if before != nil && (err != nil || url == before.url || url == "") {
		return before, nil
	}
	if s.ctx.Err() != nil {
		return nil, api.Errorf(api.CodeUnavailable, "the agent is ending")
	}
	broker, err := s.call(ctx, name, maxList)
	if err != nil {
		return nil, err
	}
	opened := &seller{url: url, Session: session.New(session.Options{
		Via: name, Cluster: s.Cluster, Key: s.Key, Broker: broker, Memory: s.Sessions.Memory(), Clock: s.Clock,
		Greet: func(ctx context.Context) error { return s.meet(ctx, name, broker) },
	})}
	if before != nil { // the connector moved
		opened.chosen = before.chosen
		s.Sessions.Remove(before.Session)
	}
	s.open[name] = opened
	s.Sessions.Add(opened.Session)
	return opened, nil
}

// Choose returns where a request is made: the Via, and the broker there. It is the broker that the request
// names, or the first. A purchase is made at its seller's connector while no broker is reached, or where the
// request says so (Via), unless this cluster chose other providers at its brokers. A reservation stays where it was
// made, but a bound one changes at its seller's connector while that broker is lost. record is nil before
// anything was made. A connector has this cluster's card. broker is nil where there is none to ask.
// Errors: Unavailable; Invalid for a name that no broker has.
func (s *Sellers) Choose(
	ctx context.Context, r api.ResourceRequestSpec, record *market.Reservation,
) (via string, broker transport.Broker, err error) {
	session, err := s.choose(ctx, r, record)
	if session == nil {
		return "", nil, err
	}
	return session.Via, session.Broker, err
}

// Find returns the Via that Choose tries first, and whether that is the connector of a seller. It calls nobody.
func (s *Sellers) Find(
	ctx context.Context, r api.ResourceRequestSpec, record *market.Reservation,
) (via string, calls bool) {
	to, _ := s.find(ctx, r, record)
	return to.via, !session.IsBroker(to.via)
}

// Count returns how many brokers and sellers there are.
func (s *Sellers) Count() int { return len(s.Sessions.Open()) }

// choice is where a request is made: at a broker, or at the connector of a seller.
type choice struct {
	via      string
	broker   *session.Session // at a seller: what takes its place
	optional bool             // the broker takes the seller's place
}

// find returns where a request is to be made, also if that is an error.
func (s *Sellers) find(ctx context.Context, r api.ResourceRequestSpec, record *market.Reservation) (choice, error) {
	broker := s.Sessions.FirstBroker()
	switch {
	case record != nil && session.IsBroker(record.Via):
		broker = s.Sessions.BrokerNamed(session.BrokerName(record.Via))
		if removed := broker == nil; removed || record.Bound() && s.Sessions.IsLost(record.Via, 0) &&
			s.hasConnector(ctx, record.Provider) {
			return choice{via: record.Provider}, nil
		}
	case record != nil:
		return choice{via: record.Via}, nil
	case r.Broker != "":
		if broker = s.Sessions.BrokerNamed(r.Broker); broker == nil {
			return choice{via: session.ViaBroker(r.Broker)}, api.Invalid("broker", "there is no broker %.63q here", r.Broker).
				Fix("name one of: bourse brokers; or add it: bourse brokers add %.63s --join TOKEN", r.Broker)
		}
	case r.Purchase != nil && (r.Via == api.ViaDirect || s.Sessions.AllLost(0)):
		to := choice{via: r.Purchase.Seller}
		if !s.isChosen(ctx, to.via) {
			return to, api.Errorf(api.CodeForbidden,
				"this cluster enabled some providers at its brokers, and %.63s is not one of them", to.via).
				Fix("enable it at one of them: POST /api/toggle?id=%.63s&enable=true", to.via)
		}
		return to, nil
	case r.Purchase != nil && r.Via == api.ViaAuto && s.hasConnector(ctx, r.Purchase.Seller) &&
		s.isChosen(ctx, r.Purchase.Seller):
		return choice{via: r.Purchase.Seller, broker: broker, optional: true}, nil
	case broker == nil:
		broker = s.Sessions.BrokerNamed(api.MainBroker) // all are disabled: its answer says so
	}
	return choice{via: viaOf(broker), broker: broker}, nil
}

// viaOf returns the Via of a broker, that of the main one if there is none.
func viaOf(broker *session.Session) string {
	if broker == nil {
		return ""
	}
	return broker.Via
}

func (s *Sellers) choose(
	ctx context.Context, r api.ResourceRequestSpec, record *market.Reservation,
) (*session.Session, error) {
	to, err := s.find(ctx, r, record)
	if err != nil || session.IsBroker(to.via) {
		return to.broker, err
	}
	if to.optional {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, answerWithin)
		defer cancel()
	}
	s.mu.Lock()
	seller, err := s.session(ctx, to.via)
	if err == nil {
		seller.chosen = s.Clock.Now()
	}
	s.mu.Unlock()
	if err == nil {
		err = s.meet(ctx, seller.Via, seller.Broker)
	}
	switch {
	case err != nil && to.optional:
		return to.broker, nil
	case seller == nil:
		return nil, err
	}
	return seller.Session, err
}

// hasConnector reports whether this cluster knows the connector of another.
func (s *Sellers) hasConnector(ctx context.Context, cluster string) bool {
	url, _ := s.connectorOf(ctx, cluster)
	return url != ""
}

// connectorOf returns the URL of a cluster's connector, empty if none is known.
func (s *Sellers) connectorOf(ctx context.Context, cluster string) (url string, err error) {
	target, err := s.target(ctx, cluster)
	return target.url, err
}
