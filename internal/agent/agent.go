// Package agent wires an agent: our program in each member cluster. It lists the rooms that an
// agent consists of, in order of dependency, and runs them. Each room is a package below this one, and
// rooms that belong together stand in one folder: docs/adr/0001-rooms-of-the-agent.md.
//
//	         ┌── reservations ──▶ gate, requests.Borrower ──▶ market ──▶ Ledger
//	broker ──┤                                                   │
//	         └── sharing ◀── inventory, SharingPolicy ◀──────────┘
//	kubectl ──▶ requests.Controller      users ──▶ answers
//
// Of several replicas the leader alone runs the rooms. Without a broker the agent starts, keeps
// what it has, and catches up later.
package agent

import (
	"context"
	"errors"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
	"github.com/bourse-dev/bourse/internal/agent/consumer/virtualnodepools"
	"github.com/bourse-dev/bourse/internal/agent/federation/brokers"
	"github.com/bourse-dev/bourse/internal/agent/federation/catalog"
	"github.com/bourse-dev/bourse/internal/agent/federation/direct"
	"github.com/bourse-dev/bourse/internal/agent/federation/enrollment"
	"github.com/bourse-dev/bourse/internal/agent/federation/peeraddress"
	"github.com/bourse-dev/bourse/internal/agent/federation/peers"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/agent/ledger"
	"github.com/bourse-dev/bourse/internal/agent/operations/answers"
	"github.com/bourse-dev/bourse/internal/agent/operations/doctor"
	"github.com/bourse-dev/bourse/internal/agent/operations/install"
	"github.com/bourse-dev/bourse/internal/agent/operations/monitoring"
	"github.com/bourse-dev/bourse/internal/agent/operations/proposals"
	"github.com/bourse-dev/bourse/internal/agent/operations/questions"
	"github.com/bourse-dev/bourse/internal/agent/peering"
	"github.com/bourse-dev/bourse/internal/agent/peering/liqowatch"
	"github.com/bourse-dev/bourse/internal/agent/provider/gate"
	"github.com/bourse-dev/bourse/internal/agent/provider/lending"
	"github.com/bourse-dev/bourse/internal/agent/provider/sharing"
	"github.com/bourse-dev/bourse/internal/agent/reservations"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/agent/settings"
	"github.com/bourse-dev/bourse/internal/compat/distributedcatalog"
	"github.com/bourse-dev/bourse/internal/contract"
	"github.com/bourse-dev/bourse/internal/debounce"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/journal/kube"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/transport"
)

// SecretName is the Secret in which an agent keeps its identity, unless the settings name another store.
const SecretName = "bourse-identity"

// Run runs an agent until ctx ends, or until something fails that only a restart of the process can
// cure. When the cluster has joined its broker, gets a new key, or gets a Liqo that can be used, the agent starts
// again by itself.
// Errors: Invalid with the flag; those of the rooms.
func Run(ctx context.Context, o settings.Options) error {
	s, err := settings.Parse(o)
	if err != nil {
		return err
	}
	for {
		err := start(ctx, s)
		again := errors.Is(err, enrollment.ErrRotated) || errors.Is(err, enrollment.ErrJoined) ||
			errors.Is(err, liqowatch.ErrUsable)
		if !again || ctx.Err() != nil {
			return err
		}
	}
}

// start runs one replica of an agent, with the key that the cluster has. The rooms run while the
// replica leads.
func start(ctx context.Context, s settings.Settings) error {
	m, err := scheme.NewManager(s.Kubernetes, s.Namespace, s.LeaderElect, s.Log)
	if err != nil {
		return install.ExplainMissing(s.Kubernetes, err)
	}
	began := make(chan struct{})
	if err := monitoring.Listen(m, s.Listen.Health, s.Listen.Metrics, began); err != nil {
		return err
	}
	lead := func(ctx context.Context) error {
		list, err := makeConsumerList(ctx, m, s)
		if err != nil {
			return err
		}
		rooms, err := makeRooms(ctx, m, s, list, began)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		return rooms.Run(ctx, m)
	}
	if err := m.Add(manager.RunnableFunc(lead)); err != nil {
		return err
	}
	return m.Start(ctx)
}

// makeRooms makes the rooms in order of dependency: each is made of those above it. A dependency that
// would close a circle is a trigger or the session set. Both are made first. list is nil without Liqo. begins is closed
// once the agent is recorded.
func makeRooms(ctx context.Context, m ctrl.Manager, s settings.Settings, list *posture.ConsumerList,
	begins chan<- struct{}) (*stages, error) {
	w := &wiring{
		Settings: s, manager: m, client: m.GetClient(), reader: m.GetAPIReader(),
		events: m.GetEventRecorder("bourse-agent"), engine: match.New(), sessions: &session.Sessions{}, consumers: list,
	}
	if list != nil {
		w.stages.First = append(w.stages.First, list)
	}
	began := func(context.Context) error { close(begins); return nil }
	for _, step := range []func(context.Context) error{
		w.makeIdentity, w.makeRecord, began, w.makeMeasures, w.makeSessions, w.makeOthers, w.makeLoans, w.makeViews,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return &w.stages, nil
}

// wiring holds what rooms are made of: other rooms, and what the cluster and the settings give. No room receives it.
type wiring struct {
	settings.Settings
	stages stages

	manager ctrl.Manager
	client  client.Client
	reader  client.Reader // reads from the API server, not from a cache
	events  events.EventRecorder
	kube    kubernetes.Interface
	engine  *match.Engine
	cluster string
	key     *clusterkey.Key

	peersChanged, lentChanged, peeringsChanged, offersChanged, brokersChanged, requestsChanged kubeobject.Trigger
	proposalsChanged                                                                           kubeobject.Trigger

	member     *enrollment.Membership
	record     *enrollment.Record
	books      room
	market     *exchange.Exchange // of the Ledger
	ledgers    doctor.Ledgers
	inventory  *inventory.Inventory
	addresses  *peeraddress.Checker
	policy     *sharing.Policy
	here       *liqowatch.Watch // this cluster's Liqo; nil: it has none
	probe      *liqo.Probe
	consumers  *posture.ConsumerList
	sessions   *session.Sessions
	main       *session.Session
	relay      session.Relay
	catalog    *catalog.Cache
	offers     *gate.Offers
	brokers    *brokers.Brokers
	peers      *peers.Peers
	sellers    *direct.Sellers
	messages   *peering.Messenger
	liqo       liqoRooms
	advertiser *sharing.Advertiser
	gate       *gate.Gate
	borrower   *requests.Borrower
	requests   *requests.Controller
	proposals  *proposals.Proposals
	follows    *reservations.Reservations
}

// realClock is the clock of all rooms but the markets (Simulated.Clock). Tests of a room give it their own.
var realClock clock.RealClock

// makeIdentity finds who this cluster is, and opens its Ledger.
func (w *wiring) makeIdentity(ctx context.Context) (err error) {
	if w.kube, err = scheme.NewClientset(w.manager.GetConfig()); err != nil {
		return err
	}
	w.cluster, err = enrollment.FindCluster(ctx, w.reader, w.Member.ClusterID, w.Liqo.Namespace, realClock, w.Log)
	if err != nil {
		return err
	}
	w.Member.ClusterID, w.Log = w.cluster, w.Log.With("cluster", w.cluster)
	identity, home := w.Member.Identity, ""
	if identity == nil {
		identity = store.InSecret(w.kube.CoreV1().Secrets(w.Namespace), SecretName)
		if home, err = enrollment.FindCluster(ctx, w.reader, "", "", realClock, w.Log); err != nil {
			return err
		}
	}
	w.member, err = enrollment.New(ctx, enrollment.Options{
		Cluster: w.cluster, Home: home, Store: identity, Token: w.Member.Join, BrokerURL: w.Member.BrokerURL, CertDir: w.Member.CertDir,
		NoBroker: w.Member.NoBroker, Objects: w.Member.Objects, Proxy: http.ProxyFromEnvironment, Clock: realClock,
		Log: w.Log,
		Secret: &enrollment.TokenSecret{Secrets: w.kube.CoreV1().Secrets(w.Namespace), Namespace: w.Namespace,
			Name: w.Member.JoinSecret, Clock: realClock},
		Changed: func() { w.brokersChanged.Add(w.Namespace, api.MainBroker) }})
	if err != nil {
		return err
	}
	w.key = w.member.Key()
	books, err := ledger.Open(ctx, ledger.Options{
		Client: w.client, Reader: w.reader, Cluster: w.cluster, Namespace: w.Namespace, CheckEvery: w.Times.Advertise,
		MarketClock: w.Simulated.Clock, Clock: realClock, Log: w.Log})
	if err != nil {
		return err
	}
	w.market, w.ledgers = books.Market(), doctor.Ledgers{ledger.ObjectName: books.Market()}
	w.books = books
	w.stages.First = append(w.stages.First, books, w.member)
	return nil
}

// makeMeasures makes what reads this cluster: its size, its policy and its Liqo.
func (w *wiring) makeMeasures(ctx context.Context) (err error) {
	w.inventory = inventory.New(w.kube, inventory.Options{
		Logger: w.Log, Owner: liqo.Creator, User: grant.User, Consumer: lending.ConsumerOf(w.market)})
	w.addresses = peeraddress.New(peeraddress.Options{
		Allow: w.Ranges, Kubernetes: w.kube, Clock: realClock, Log: w.Log})
	w.addresses.ReadRanges(ctx)
	w.policy = sharing.NewPolicy(sharing.PolicyOptions{
		Client: w.client, Engine: w.engine, Namespace: w.Namespace, Offers: &w.offersChanged})
	w.stages.First = append(w.stages.First, w.addresses, w.inventory)
	w.stages.Measured = w.inventory.Synced()
	w.probe = &liqo.Probe{OpenAPI: w.kube.Discovery().OpenAPIV3()}
	watch := liqowatch.Options{
		Reader: w.reader, Mapper: w.manager.GetRESTMapper(), Namespace: w.Liqo.Namespace, APIServer: w.Liqo.APIServer,
		Gateway: w.Gateway, Addresses: w.addresses, Changed: w.policy.AdvertiseAgain, Served: w.probe.Served,
		Clock: realClock, Log: w.Log,
	}
	w.here, err = liqowatch.New(ctx, watch)
	if w.here == nil && watch.Namespace != "" {
		w.stages.First = append(w.stages.First, liqowatch.Waiting{Options: watch})
	}
	return err
}

// makeSessions makes the sessions with the main broker and with this cluster's own connector, and what opens others.
func (w *wiring) makeSessions(ctx context.Context) error {
	w.main = session.New(session.Options{
		Cluster: w.cluster, Key: w.key, Broker: transport.NewHTTP(w.cluster, w.member.Client()), Lends: true,
		Switch: w.member.Switch(), Memory: w.sessions.Memory(), Clock: realClock,
	})
	w.sessions.Add(w.main)
	w.relay = session.Relay{Broker: w.main.Broker, Sessions: w.sessions, Ledger: w.market}
	outlets := session.Outlets{Sessions: w.sessions, ShownAt: w.policy.ShownAt}
	if w.Listen.Connector != "" && !w.member.IsCloned() {
		own, err := direct.NewConnector(ctx, direct.ConnectorOptions{
			Cluster: w.cluster, Key: w.key, Ledger: w.market, Listen: w.Listen.Connector, URL: w.Listen.ConnectorURL,
			Proposed:    func(id string) { w.proposalsChanged.Add(w.Namespace, id) },
			Journal:     kube.New(w.client, client.ObjectKey{Namespace: w.Namespace, Name: direct.ObjectName}, kube.Parts),
			MarketClock: w.Simulated.Clock, Log: w.Log,
		})
		if err != nil {
			return err
		}
		w.stages.First, w.ledgers[direct.ObjectName] = append(w.stages.First, own), own.Market()
		w.sessions.Add(session.New(session.Options{
			Via: w.cluster, Cluster: w.cluster, Key: w.key, Broker: own.Broker(), Lends: true, Clock: realClock,
		}))
	}
	w.catalog = catalog.New(catalog.Options{
		Cluster: w.cluster, Clock: realClock, Log: w.Log,
		Journal: kube.New(w.client, client.ObjectKey{Namespace: w.Namespace, Name: catalog.ObjectName}, 0),
	})
	w.catalog.Load(ctx)
	w.offers = gate.NewOffers(gate.OffersOptions{
		Client: w.client, Cluster: w.cluster, Namespace: w.Namespace, Key: w.key, Market: w.market, Engine: w.engine,
		Broker: outlets, Shown: outlets.Shown, Changed: &w.offersChanged, Events: w.events,
	})
	advertiseAgain := func() { w.policy.AdvertiseAgain(); w.offers.LookAgain() }
	w.brokers = brokers.New(brokers.Options{
		Client: w.client, Namespace: w.Namespace, Main: w.member, Sessions: w.sessions, Ledger: w.market,
		Catalog: w.catalog, Changed: &w.brokersChanged, Joined: advertiseAgain, Events: w.events, Log: w.Log,
	})
	return nil
}

// makeOthers makes what knows other clusters, and Liqo's peerings with them.
func (w *wiring) makeOthers(context.Context) error {
	lookAtPeering := func(peer string, role api.PeeringRole) {
		if w.here != nil { // else there are no peerings
			w.peeringsChanged.Add(w.Namespace, api.PeeringName(peer, role))
		}
	}
	w.peers = peers.New(peers.Options{
		Client: w.client, Namespace: w.Namespace, Market: w.market, Events: w.events, Sharing: w.policy.Sharing,
		Roots: w.Roots, Trigger: &w.peersChanged, StateChanged: lookAtPeering,
	})
	w.sellers = direct.NewSellers(direct.SellersOptions{
		Cluster: w.cluster, Key: w.key, Ledger: w.market, Sessions: w.sessions, Addresses: w.addresses,
		Trust: w.peers.Demand(), Contacted: w.peers.RecordContact, Clock: realClock, Log: w.Log,
	})
	w.stages.First = append(w.stages.First, w.sellers, w.brokers)
	w.messages = peering.NewMessenger(peering.MessengerOptions{
		Cluster: w.cluster, Key: w.key, Former: w.member.Former(), Market: w.market, Relay: w.relay,
		Trust: w.peers.Demand(), Received: lookAtPeering, Clock: realClock, Log: w.Log,
	})
	w.liqo = newLiqoRooms(liqoOptions{
		Manager: w.manager, Settings: w.Settings, Liqo: w.here, Addresses: w.addresses, Inventory: w.inventory,
		Policy: w.policy, Peers: w.peers, Messages: w.messages, Relay: w.relay, Peerings: &w.peeringsChanged,
		Probe: w.probe, Consumers: w.consumers,
	})
	return nil
}

// makeLoans makes what lends and borrows.
func (w *wiring) makeLoans(ctx context.Context) error {
	w.advertiser = sharing.New(sharing.Options{
		Client: w.client, Object: client.ObjectKey{Namespace: w.Namespace, Name: w.AdvertisementName}, Market: w.market,
		Inventory: w.inventory, Policy: w.policy, Outlets: w.sessions.Outlets, Clock: realClock, Log: w.Log,
		Schedule: sharing.Schedule{Interval: w.Times.Advertise, Aligned: w.Times.Aligned},
		Card: sharing.CardOptions{
			Cluster: w.cluster, Key: w.key, Rotations: w.member.Rotations(), Endorsement: w.Member.Endorsement,
			Connector: w.Listen.ConnectorURL, Liqo: w.liqo.FillCard,
		},
	})
	w.gate = gate.New(gate.Options{
		Cluster: w.cluster, Key: w.key, Former: w.member.Former(), Market: w.market, Engine: w.engine,
		Broker: w.main.Broker, Trust: w.peers.Demand(), Freed: w.liqo.Freed, Fresh: w.advertiser.Fresh, Log: w.Log,
	})
	w.borrower = requests.NewBorrower(requests.BorrowerOptions{
		Cluster: w.cluster, Key: w.key, Market: w.market, Broker: w.main.Broker, Trust: w.peers.Demand(),
		Reach: w.liqo.CheckReach, Fit: w.liqo.CheckBorrow, Joins: w.liqo.Joins, Log: w.Log,
	})
	w.requests = requests.New(requests.Options{
		Client: w.client, Market: w.market, Events: w.events, Forgotten: w.sessions.IsForgotten, Volumes: w.liqo.Volumes,
		Offloading: w.liqo.Offloading, Changed: &w.requestsChanged, Passing: debounce.Passing, Borrower: w.borrower,
		Places: w.sellers,
	})
	w.proposals = proposals.New(proposals.Options{
		Client: w.client, Cluster: w.cluster, Namespace: w.Namespace, Key: w.key, Ledger: w.market, Sellers: w.sellers,
		Offers: gateAndOffers{w.gate, w.offers}, Changed: &w.proposalsChanged,
	})
	w.follows = reservations.New(ctx, reservations.Options{
		Cluster: w.cluster, Namespace: w.Namespace, Ledger: w.market, Sessions: w.sessions, Peer: w.liqo.Follow,
		Clock: realClock, Log: w.Log,
		Contracts: &contract.Objects{Client: w.client, Cluster: w.cluster, Key: w.key, Market: w.market},
		Provider: reservations.Provider{
			Gate: w.gate, Offers: w.offers,
			Instructions: &gate.Instructions{Client: w.client, Namespace: w.Namespace, Market: w.market,
				Events: w.events},
			Lent: func(consumer string) { w.lentChanged.AddAfter(w.Namespace, consumer, time.Second) },
		},
		Consumer: reservations.Consumer{Borrower: w.borrower, Requests: w.requests},
	})
	watcher := session.NewWatcher(session.WatcherOptions{
		Sessions: w.sessions, Catalog: w.catalog, Reservation: w.follows.Look, Complete: w.follows.LookAtAll,
		Membership: w.peers.RecordState, Handshake: w.messages.Receive, Offers: w.offers,
		Connection: w.brokers.RecordConnection, Choice: w.sellers.RecordChoice, Log: w.Log,
	})
	w.stages.Controllers = append([]controller{
		w.policy, w.peers, w.offers, &gate.Approvals{Client: w.client, Gate: w.gate, Events: w.events}, w.brokers, w.requests,
		&gate.Evictions{Client: w.client, Gate: w.gate, Trigger: &w.lentChanged, Events: w.events},
		&gate.Reclaims{Client: w.client, Gate: w.gate, Namespace: w.Namespace, Events: w.events}, w.proposals,
	}, w.liqo.Controllers...)
	w.stages.Load = []func(context.Context) error{w.policy.Load, w.peers.ReadAll, w.advertiser.Begin}
	w.stages.Then = []room{w.advertiser, w.follows, watcher, w.catalog}
	return nil
}

// gateAndOffers accepts what was sold, and sells.
type gateAndOffers struct {
	*gate.Gate
	*gate.Offers
}

// makeViews makes what users see.
func (w *wiring) makeViews(context.Context) (err error) {
	finds := doctor.New(doctor.Options{
		Liqo: w.liqo.Liqo, Show: w.advertiser.ShowHealth, Clock: realClock, Checks: append([]doctor.Check{
			{About: "the record of this agent", Find: doctor.Agent{Record: w.record}.Find},
			{About: "the main broker", Find: doctor.MainBroker{
				Cluster: w.cluster, Membership: w.member, Brokers: w.brokers, Clock: realClock}.Find},
			{About: "the other brokers", Find: doctor.OtherBrokers{Brokers: w.brokers, Clock: realClock}.Find},
			{About: "what works without a broker", Find: doctor.Offline{
				Cluster: w.cluster, Ledger: w.market, Sessions: w.sessions, Sharing: w.policy.Sharing, Copy: w.catalog,
				Connector: w.Listen.ConnectorURL, Clock: realClock,
			}.Find},
			{About: "what this cluster shares", Find: doctor.Sharing{
				Cluster: w.cluster, Ledger: w.market, Policy: w.policy}.Find},
			{About: "what this cluster sells", Find: doctor.Offers{Client: w.client, Namespace: w.Namespace}.Find},
			{About: "peers", Find: doctor.Peers{
				Client: w.client, Namespace: w.Namespace, PassedOver: w.requests.FindPassedOver}.Find},
			{About: "reservations without a request", Find: doctor.Unknown{Unknown: w.follows.FindUnknown}.Find},
			{About: "Ledgers", Find: w.ledgers.Find},
			{About: "Bourse's kinds", Find: doctor.Kinds{OpenAPI: w.kube.Discovery().OpenAPIV3()}.Find},
		}, w.liqo.Checks...),
	})
	objects, err := cluster.NewObjects(w.Kubernetes)
	if err != nil {
		return err
	}
	users := answers.New(answers.Options{
		Cluster: answers.NewCluster(answers.ClusterOptions{
			Client: w.client, Cluster: w.cluster, Namespace: w.Namespace, Ledger: w.market, Member: w.member,
			Sharing: w.policy.Sharing, PodsOn: w.inventory.PodsOn,
			Gate: w.gate,
			Requests: struct {
				*requests.Borrower
				*requests.Controller
				*reservations.Reservations
				*direct.Sellers
				*virtualnodepools.Forecast
			}{w.borrower, w.requests, w.follows, w.sellers, w.liqo.Pools},
			Brokers: w.brokers, Doctor: finds, Preview: w.advertiser,
		}),
		Brokers: answers.Brokers{Relay: w.relay, Connectors: w.sellers, Copy: w.catalog, Clock: realClock},
		Socket:  w.Listen.Socket, Listen: w.Listen.Loopback, TokenFile: w.Listen.TokenFile, Log: w.Log,
		Extend: distributedcatalog.Extend(w.Listen.DistributedCatalog, distributedcatalog.ConnectorOptions{
			Home: distributedcatalog.Objects{
				Client: w.client, Namespace: w.Namespace, Advertisement: w.AdvertisementName, Liqo: w.here != nil,
			},
			Objects: objects, Namespace: w.Namespace, URL: w.Listen.ConnectorURL, Log: w.Log,
		}),
	})
	asked, err := questions.New(questions.Options{Client: w.client, Server: users.Questions(), Listen: w.Listen.Questions,
		Pod: w.Listen.Pod, Namespace: w.Namespace, Clock: realClock, Log: w.Log})
	if err != nil {
		return err
	}
	w.stages.Controllers = append(w.stages.Controllers, asked)
	if w.Listen.Metrics != "" {
		w.stages.First = append(w.stages.First, monitoring.New(monitoring.Options{
			Cluster: w.cluster, Ledger: w.market, Ledgers: w.ledgers, Main: w.main.Connection(), Problems: finds.Last,
			Overstaying: w.liqo.Overstaying,
		}))
	}
	w.stages.Then = append(append(w.stages.Then, finds, users, asked), w.liqo.Run...)
	if w.member.IsCloned() {
		w.leaveOnly(finds, users, asked)
	}
	return nil
}
