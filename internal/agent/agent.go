// Package agent wires an agent: our program in each member cluster. It lists the rooms that an
// agent consists of, in order of dependency, and runs them. Each room is a package below this one, and
// rooms that belong together stand in one folder: docs/adr/0001-rooms-of-the-agent.md.
//
//	         ┌── reservations ──▶ gate, requests.Borrower ──▶ market ──▶ Ledger
//	broker ──┤                                                   │
//	         └── sharing ◀── inventory, SharingPolicy ◀──────────┘
//	kubectl ──▶ requests.Controller      users ──▶ localapi
//
// Of several replicas the leader alone runs the rooms. Without a broker the agent starts, keeps
// what it has, and catches up later.
package agent

import (
	"context"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/bourse-dev/bourse/api"
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
	"github.com/bourse-dev/bourse/internal/agent/operations/doctor"
	"github.com/bourse-dev/bourse/internal/agent/operations/install"
	"github.com/bourse-dev/bourse/internal/agent/operations/localapi"
	"github.com/bourse-dev/bourse/internal/agent/operations/monitoring"
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
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/journal/kube"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/transport"
)

// SecretName is the Secret in which an agent keeps its identity, unless the settings name another store.
const SecretName = "bourse-identity"

// Run runs an agent until ctx ends, or until something fails that only a restart of the process can
// cure. When the cluster gets a new key, the agent starts again by itself. Errors: Invalid with the
// flag; those of the rooms.
func Run(ctx context.Context, o settings.Options) error {
	s, err := settings.Parse(o)
	if err != nil {
		return err
	}
	for {
		err := start(ctx, s)
		if !errors.Is(err, enrollment.ErrRotated) || ctx.Err() != nil {
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
	if err := monitoring.Listen(m, s.Listen.Health, s.Listen.Metrics); err != nil {
		return err
	}
	lead := func(ctx context.Context) error {
		rooms, err := makeRooms(ctx, m, s)
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
// would close a circle is a trigger or the session set. Both are made first.
func makeRooms(ctx context.Context, mgr ctrl.Manager, s settings.Settings) (*stages, error) {
	var peersChanged, peeringsChanged, offersChanged, brokersChanged, requestsChanged kubeobject.Trigger
	c, reader, events := mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("bourse-agent")
	open, engine, ns, now := &session.Sessions{}, match.New(), s.Namespace, s.Times.Clock
	k, err := scheme.NewClientset(mgr.GetConfig())
	if err != nil {
		return nil, err
	}
	cluster, err := enrollment.FindCluster(ctx, reader, s.Member.ClusterID, s.Liqo.Namespace, now, s.Log)
	if err != nil {
		return nil, err
	}
	log := s.Log.With("cluster", cluster)
	s.Member.ClusterID, s.Log = cluster, log
	identity := s.Member.Identity
	if identity == nil {
		identity = store.InSecret(k.CoreV1().Secrets(ns), SecretName)
	}
	member, err := enrollment.New(ctx, enrollment.Options{
		Cluster: cluster, Store: identity, Token: s.Member.Join, BrokerURL: s.Member.BrokerURL, CertDir: s.Member.CertDir,
		NoBroker: s.Member.NoBroker, Objects: s.Member.Objects, Clock: now, Log: log})
	if err != nil {
		return nil, err
	}
	key := member.Key()
	books, err := ledger.Open(ctx, ledger.Options{
		Client: c, Reader: reader, Cluster: cluster, Namespace: ns, CheckEvery: s.Times.Advertise,
		MarketClock: s.Times.Market, Clock: now, Log: log})
	if err != nil {
		return nil, err
	}
	market, ledgers := books.Market(), doctor.Ledgers{ledger.ObjectName: books.Market()}
	inv := inventory.New(k, inventory.Options{
		Logger: log, Owner: liqo.Creator, User: grant.User, Consumer: lending.ConsumerOf(market)})
	addresses := peeraddress.New(peeraddress.Options{Allow: s.Ranges, Kubernetes: k, Clock: now, Log: log})
	addresses.ReadRanges(ctx)
	policy := sharing.NewPolicy(sharing.PolicyOptions{Client: c, Engine: engine, Namespace: ns, Offers: &offersChanged})
	here, err := liqowatch.New(ctx, liqowatch.Options{
		Reader: reader, Mapper: mgr.GetRESTMapper(), Namespace: s.Liqo.Namespace, APIServer: s.Liqo.APIServer,
		Gateway: s.Gateway, AllowUntested: s.Liqo.AllowUntested, Addresses: addresses, Changed: policy.AdvertiseAgain,
		Clock: now, Log: log,
	})
	if err != nil {
		return nil, err
	}

	// Brokers and connectors.
	main := session.New(session.Options{
		Cluster: cluster, Key: key, Broker: transport.NewHTTP(cluster, member.Client()), Lends: true,
		Switch: member.Switch(), Memory: open.Memory(), Clock: now,
	})
	open.Add(main)
	relay := session.Relay{Broker: main.Broker, Sessions: open, Ledger: market}
	outlets := session.Outlets{Sessions: open, ShownAt: policy.ShownAt}
	rooms := &stages{First: []room{books, member, addresses, inv}, Measured: inv.Synced()}
	if s.Listen.Connector != "" {
		own, err := direct.NewConnector(ctx, direct.ConnectorOptions{
			Cluster: cluster, Key: key, Ledger: market, Listen: s.Listen.Connector, URL: s.Listen.ConnectorURL,
			Journal:     kube.New(c, client.ObjectKey{Namespace: ns, Name: direct.ObjectName}, kube.Parts),
			MarketClock: s.Times.Market, Log: log,
		})
		if err != nil {
			return nil, err
		}
		rooms.First, ledgers[direct.ObjectName] = append(rooms.First, own), own.Market()
		open.Add(session.New(session.Options{
			Via: cluster, Cluster: cluster, Key: key, Broker: own.Broker(), Lends: true, Clock: now,
		}))
	}
	catalog := catalog.New(catalog.Options{
		Cluster: cluster, Journal: kube.New(c, client.ObjectKey{Namespace: ns, Name: catalog.ObjectName}, 0),
		Clock: now, Log: log,
	})
	catalog.Load(ctx)
	offers := gate.NewOffers(gate.OffersOptions{
		Client: c, Cluster: cluster, Namespace: ns, Key: key, Market: market, Engine: engine, Broker: outlets,
		Shown: outlets.Shown, Changed: &offersChanged,
	})
	advertiseAgain := func() { policy.AdvertiseAgain(); offers.LookAgain() }
	all := brokers.New(brokers.Options{
		Client: c, Namespace: ns, Main: member, Sessions: open, Ledger: market, Catalog: catalog, Changed: &brokersChanged,
		Joined: advertiseAgain, Log: log,
	})

	// Other clusters, and Liqo's peerings with them.
	lookAtPeering := func(peer string, role api.PeeringRole) {
		if here != nil { // else there are no peerings
			peeringsChanged.Add(ns, api.PeeringName(peer, role))
		}
	}
	known := peers.New(peers.Options{
		Client: c, Namespace: ns, Market: market, Events: events, Sharing: policy.Sharing, Roots: s.Roots,
		Trigger: &peersChanged, StateChanged: lookAtPeering,
	})
	connectors := direct.NewSellers(direct.SellersOptions{
		Cluster: cluster, Key: key, Ledger: market, Sessions: open, Addresses: addresses, Trust: known.Demand(),
		Contacted: known.RecordContact, Clock: now, Log: log,
	})
	messages := peering.NewMessenger(peering.MessengerOptions{
		Cluster: cluster, Key: key, Former: member.Former(), Market: market, Relay: relay, Trust: known.Demand(),
		Received: lookAtPeering, Clock: now, Log: log,
	})
	liqos := newLiqoRooms(liqoOptions{
		Manager: mgr, Settings: s, Liqo: here, Addresses: addresses, Inventory: inv, Policy: policy, Peers: known,
		Messages: messages, Relay: relay, Peerings: &peeringsChanged,
	})

	// What this cluster lends, and what it borrows.
	advertiser := sharing.New(sharing.Options{
		Client: c, Object: client.ObjectKey{Namespace: ns, Name: s.AdvertisementName}, Market: market, Inventory: inv,
		Policy: policy, Outlets: open.Outlets, Clock: now, Log: log,
		Schedule: sharing.Schedule{Interval: s.Times.Advertise, Aligned: s.Times.Aligned},
		Card: sharing.CardOptions{
			Cluster: cluster, Key: key, Rotations: member.Rotations(), Endorsement: s.Member.Endorsement,
			Connector: s.Listen.ConnectorURL, Liqo: liqos.FillCard,
		},
	})
	lends := gate.New(gate.Options{
		Cluster: cluster, Key: key, Former: member.Former(), Market: market, Engine: engine, Broker: main.Broker,
		Trust: known.Demand(), Freed: liqos.Freed, Fresh: advertiser.Fresh, Log: log,
	})
	approvals := &gate.Approvals{Client: c, Gate: lends}
	borrows := requests.NewBorrower(requests.BorrowerOptions{
		Cluster: cluster, Key: key, Market: market, Broker: main.Broker, Trust: known.Demand(), Reach: liqos.CheckReach,
		Fit: liqos.CheckBorrow, Joins: liqos.Joins, Log: log,
	})
	asks := requests.New(requests.Options{
		Client: c, Market: market, Events: events, Forgotten: open.IsForgotten, Volumes: liqos.Volumes,
		Offloading: liqos.Offloading, Changed: &requestsChanged, Passing: debounce.Passing, Borrower: borrows,
		Places: connectors,
	})
	follows := reservations.New(ctx, reservations.Options{
		Cluster: cluster, Namespace: ns, Ledger: market, Sessions: open, Peer: liqos.Follow, Clock: now, Log: log,
		Contracts: &contract.Objects{Client: c, Cluster: cluster, Key: key, Market: market},
		Provider: reservations.Provider{
			Gate: lends, Offers: offers, Instructions: &gate.Instructions{Client: c, Namespace: ns, Events: events},
		},
		Consumer: reservations.Consumer{Borrower: borrows, Requests: asks},
	})
	watcher := session.NewWatcher(session.WatcherOptions{
		Sessions: open, Catalog: catalog, Reservation: follows.Look, Complete: follows.LookAtAll, Standing: known.RecordState,
		Handshake: messages.Receive, Offers: offers, Connection: all.RecordConnection,
		Choice: connectors.RecordChoice, Log: log,
	})

	// What users see.
	finds := doctor.New(doctor.Options{
		Liqo: liqos.Liqo, Show: advertiser.ShowHealth, Clock: now, Checks: append([]doctor.Check{
			{About: "the main broker", Find: doctor.MainBroker{Cluster: cluster, Membership: member, Brokers: all, Clock: now}.Find},
			{About: "the other brokers", Find: doctor.OtherBrokers{Brokers: all, Clock: now}.Find},
			{About: "what works without a broker", Find: doctor.Offline{
				Cluster: cluster, Ledger: market, Sessions: open, Sharing: policy.Sharing, Copy: catalog,
				Connector: s.Listen.ConnectorURL, Clock: now,
			}.Find},
			{About: "what this cluster shares", Find: doctor.Sharing{Cluster: cluster, Ledger: market, Policy: policy}.Find},
			{About: "what this cluster sells", Find: doctor.Offers{Client: c, Namespace: ns}.Find},
			{About: "peers", Find: doctor.Peers{Client: c, Namespace: ns, PassedOver: asks.FindPassedOver}.Find},
			{About: "Ledgers", Find: ledgers.Find},
		}, liqos.Checks...),
	})
	users := localapi.New(localapi.Options{
		Cluster: localapi.NewCluster(localapi.ClusterOptions{
			Client: c, Cluster: cluster, Namespace: ns, Ledger: market, Member: member, Sharing: policy.Sharing,
			Gate: struct {
				*gate.Gate
				*gate.Offers
			}{lends, offers},
			Requests: struct {
				*requests.Borrower
				*requests.Controller
				*direct.Sellers
				*virtualnodepools.Forecast
			}{borrows, asks, connectors, liqos.Pools},
			Brokers: all, Doctor: finds,
		}),
		Brokers: localapi.Brokers{Relay: relay, Connectors: connectors, Copy: catalog, Clock: now},
		Socket:  s.Listen.Socket, Listen: s.Listen.Loopback, TokenFile: s.Listen.TokenFile, Log: log,
		Extend: distributedcatalog.Extend(s.Listen.DistributedCatalog, distributedcatalog.ConnectorOptions{
			Home: distributedcatalog.Objects{
				Client: c, Namespace: ns, Advertisement: s.AdvertisementName, Liqo: here != nil,
			},
			URL: s.Listen.ConnectorURL, Log: log,
		}),
	})
	if s.Listen.Metrics != "" {
		rooms.First = append(rooms.First, monitoring.New(monitoring.Options{
			Cluster: cluster, Ledger: market, Ledgers: ledgers, Main: main.Connection(), Problems: finds.Last,
			Overstaying: liqos.Overstaying,
		}))
	}
	rooms.First = append(rooms.First, connectors, all)
	rooms.Controllers = append([]controller{policy, known, offers, approvals, all, asks}, liqos.Controllers...)
	rooms.Load = []func(context.Context) error{policy.Load, known.ReadAll, advertiser.Begin}
	rooms.Then = append([]room{finds, advertiser, follows, watcher, catalog, users}, liqos.Run...)
	return rooms, nil
}
