package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/borrowing"
	"github.com/bourse-dev/bourse/internal/agent/brokers"
	"github.com/bourse-dev/bourse/internal/agent/brokersession"
	"github.com/bourse-dev/bourse/internal/agent/catalogcache"
	"github.com/bourse-dev/bourse/internal/agent/connector"
	"github.com/bourse-dev/bourse/internal/agent/enrollment"
	"github.com/bourse-dev/bourse/internal/agent/gate"
	"github.com/bourse-dev/bourse/internal/agent/handshake"
	"github.com/bourse-dev/bourse/internal/agent/install"
	"github.com/bourse-dev/bourse/internal/agent/ledger"
	"github.com/bourse-dev/bourse/internal/agent/localapi"
	"github.com/bourse-dev/bourse/internal/agent/monitoring"
	"github.com/bourse-dev/bourse/internal/agent/peeraddress"
	"github.com/bourse-dev/bourse/internal/agent/peering"
	"github.com/bourse-dev/bourse/internal/agent/peers"
	"github.com/bourse-dev/bourse/internal/agent/requests"
	"github.com/bourse-dev/bourse/internal/agent/reservations"
	"github.com/bourse-dev/bourse/internal/agent/route"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/agent/sellers"
	"github.com/bourse-dev/bourse/internal/agent/sharing"
	"github.com/bourse-dev/bourse/internal/agent/usage"
	"github.com/bourse-dev/bourse/internal/contract"
	"github.com/bourse-dev/bourse/internal/debounce"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/inventory"
	"github.com/bourse-dev/bourse/internal/journal/kube"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/transport"
	objects "github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// Options say how an agent runs. The zero value of a field is its default.
type Options struct {
	// Kubernetes is how the cluster's API server is reached. Required.
	Kubernetes *rest.Config
	// ClusterID names the cluster; empty: Liqo's, or without Liqo the kube-system UID.
	ClusterID     string
	WithoutLiqo   bool
	LiqoNamespace string
	// APIServer is the URL at which peers reach this cluster's API server. Default: as Liqo tells them.
	APIServer string
	// NetworkGateway says whether this cluster takes part in Liqo's network with others, and how these reach its gateway: none
	// (the default), outbound, NodePort or LoadBalancer.
	NetworkGateway string
	// AllowUntestedLiqo peers with a version of Liqo that Bourse was not tested with.
	AllowUntestedLiqo bool
	// Namespace holds what belongs to the agent. Default "bourse".
	Namespace string
	// AdvertisementName is the name of the Advertisement there. Default "cluster".
	AdvertisementName string
	// PublishAligned has the cluster advertise at the multiples of Interval on the clock.
	PublishAligned bool
	// Join is a token; it is needed once.
	Join string
	// BrokerURL overrides the token's. CertDir holds tls.crt, tls.key and ca.crt where the broker's CA
	// is not its own; then there is no token.
	BrokerURL, CertDir string
	// Objects are those in the broker's cluster through which the agent reaches the broker, instead of by its REST API. Nil: by that.
	Objects *objects.Access
	// Identity is where the keys are kept. Default: the Secret "bourse-identity" in Namespace.
	Identity store.Store
	// Interval is how often the cluster advertises without a change. Default 30 s.
	Interval time.Duration
	// Linger is how long a peering is kept that no reservation uses. Default 10 min; negative: not at all.
	Linger time.Duration
	// Abandon is how long the end of a peering waits for the other side to take back its part. Default 2 min.
	Abandon time.Duration
	// ShrinkGrace is how long pods may stay after the reservation that they run by; ExcessGrace how long, after that,
	// until they are deleted. Default 30 s and 60 s.
	ShrinkGrace, ExcessGrace time.Duration
	// Roots are offline keys whose endorsements confirm the keys of others, in base64url; Endorsement is the document
	// (JWS) in which one confirms this cluster's, shown on its card.
	Roots       []string
	Endorsement string
	// ConnectorListen is the address at which those who know this cluster by its key deal with it without a broker, ConnectorURL
	// the URL at which they reach it, for the card. Empty: they do not.
	ConnectorListen, ConnectorURL string
	// PeerRanges are ranges of addresses (CIDR) that peers may name as theirs although they are loopback, link-local or this cluster's own.
	PeerRanges []string
	// LeaderElect lets one of several replicas lead.
	LeaderElect bool
	// Socket and Listen are where people reach the agent: a unix socket, and an address on loopback
	// with the token in TokenFile. Empty: not.
	Socket, Listen, TokenFile string
	// DistributedCatalog serves there, too, the interface of that prototype's connector.
	DistributedCatalog bool
	// HealthAddress and MetricsAddress serve /livez, /readyz and /metrics. "0" or empty: not.
	HealthAddress, MetricsAddress string
	// Clock is the machine's unless a test says otherwise.
	Clock exchange.Clock
	Log   *slog.Logger
}

const (
	// SecretName is where an agent keeps its identity in its cluster.
	SecretName = "bourse-identity"
)

// Run runs an agent until ctx ends, or something fails that only a new start can cure. When the cluster gets a new key, it
// starts again by itself.
func Run(ctx context.Context, o Options) error {
	o.Namespace, o.LiqoNamespace = cmp.Or(o.Namespace, api.Namespace), cmp.Or(o.LiqoNamespace, "liqo")
	o.AdvertisementName = cmp.Or(o.AdvertisementName, "cluster")
	if o.Interval == 0 {
		o.Interval = 30 * time.Second
	}
	if o.Linger == 0 {
		o.Linger = 10 * time.Minute
	}
	if o.Abandon == 0 {
		o.Abandon = 2 * time.Minute
	}
	if o.ShrinkGrace == 0 {
		o.ShrinkGrace = 30 * time.Second
	}
	if o.ExcessGrace == 0 {
		o.ExcessGrace = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Kubernetes = rest.CopyConfig(o.Kubernetes)
	if o.Kubernetes.QPS == 0 {
		o.Kubernetes.QPS = -1 // the API server shares itself out fairly; a limit here only makes people wait
	}
	for {
		err := run(ctx, o)
		if !errors.Is(err, enrollment.ErrRotated) || ctx.Err() != nil {
			return err
		}
	}
}

// run runs an agent with the key that the cluster has.
func run(ctx context.Context, o Options) error {
	mgr, err := newManager(o)
	if err != nil {
		return install.ExplainMissing(o.Kubernetes, err)
	}
	gateway, err := network.Parse(o.NetworkGateway)
	if err != nil {
		return err
	}
	if err := connector.Check(o.ConnectorListen, o.ConnectorURL); err != nil {
		return err
	}
	ranges, err := peeraddress.ParseRanges(o.PeerRanges)
	if err != nil {
		return err
	}
	a := &agent{Options: o, peerRanges: ranges, mgr: mgr, gateway: gateway}
	if err := monitoring.Listen(mgr, o.HealthAddress, o.MetricsAddress); err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(a.lead)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func newManager(o Options) (manager.Manager, error) {
	skip := true
	return ctrl.NewManager(o.Kubernetes, ctrl.Options{
		Scheme: scheme.New(), Logger: logr.FromSlogHandler(kubeobject.QuietLog(o.Log.Handler())),
		Metrics:                       metricsserver.Options{BindAddress: "0"}, // see monitoring.Listen
		HealthProbeBindAddress:        "0",
		LeaderElection:                o.LeaderElect,
		LeaderElectionID:              "bourse-agent",
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		Controller:                    config.Controller{SkipNameValidation: &skip}, // several agents in one process: the demo
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&api.ProviderInstruction{}: {Namespaces: map[string]cache.Config{o.Namespace: {}}},
			&api.Advertisement{}:       {Namespaces: map[string]cache.Config{o.Namespace: {}}},
			&api.Peer{}:                {Namespaces: map[string]cache.Config{o.Namespace: {}}},
			&api.Peering{}:             {Namespaces: map[string]cache.Config{o.Namespace: {}}},
			&api.Broker{}:              {Namespaces: map[string]cache.Config{o.Namespace: {}}},
			&api.Offer{}:               {Namespaces: map[string]cache.Config{o.Namespace: {}}},
			&corev1.Node{}:             {Label: labels.SelectorFromSet(liqo.VirtualNodes())}, // the inventory knows the others
		}},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&api.Ledger{}, &corev1.Secret{}}}},
	})
}

// ledgerName is the name of the Ledger, of which the connector has another.
const ledgerName = ledger.ObjectName

// agent is a running agent.
type agent struct {
	Options
	mgr        manager.Manager
	gateway    network.Gateway
	peerRanges []netip.Prefix
}

// lead is what the leader does.
func (a *agent) lead(ctx context.Context) error {
	config := rest.CopyConfig(a.mgr.GetConfig())
	config.ContentType = runtime.ContentTypeProtobuf // pods and nodes: a fraction of what JSON costs
	kubernetesClient, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	cluster, err := a.findCluster(ctx)
	if err != nil {
		return err
	}
	log := a.Log.With("cluster", cluster)
	if a.Identity == nil {
		a.Identity = store.InSecret(kubernetesClient.CoreV1().Secrets(a.Namespace), SecretName)
	}
	m, err := enrollment.New(ctx, enrollment.Options{
		Cluster: cluster, Store: a.Identity, Token: a.Join, BrokerURL: a.BrokerURL, CertDir: a.CertDir, Objects: a.Objects, Log: log,
	})
	if err != nil {
		return err
	}
	books, err := ledger.Open(ctx, ledger.Options{
		Client: a.mgr.GetClient(), Reader: a.mgr.GetAPIReader(), Cluster: cluster, Namespace: a.Namespace, CheckEvery: a.Interval, MarketClock: a.Clock, Log: log,
	})
	if err != nil {
		return err
	}
	main := brokersession.New(brokersession.Options{Cluster: cluster, Key: m.Key(), Broker: transport.NewHTTP(cluster, m.Client()), Lends: true, Switch: m.Switch()})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return books.Run(ctx) })
	group.Go(func() error { return m.Run(ctx) })
	group.Go(func() error { return a.trade(ctx, group, cluster, m, main, books.Market(), kubernetesClient, log) })
	return group.Wait()
}

// findCluster returns the ID of this cluster: the flag's, or the one that enrollment finds.
func (a *agent) findCluster(ctx context.Context) (string, error) {
	if a.ClusterID != "" {
		return a.ClusterID, market.ValidCluster("--cluster-id", a.ClusterID)
	}
	liqoNamespace := a.LiqoNamespace
	if a.WithoutLiqo {
		liqoNamespace = ""
	}
	return enrollment.FindCluster(ctx, a.mgr.GetAPIReader(), liqoNamespace, clock.RealClock{}, a.Log)
}

// trustRoots reads the keys whose endorsements confirm those of others. Errors: Invalid with the flag.
func (a *agent) trustRoots() (roots []clusterkey.PublicKey, err error) {
	for _, text := range a.Roots {
		root, err := clusterkey.ParsePublicKey(text)
		if err != nil {
			return nil, api.Invalid("--trust-root", "%s", err).Fix("give what `bourse root create` printed")
		}
		roots = append(roots, root)
	}
	return roots, nil
}

// trade puts the two halves of the agent together.
func (a *agent) trade(ctx context.Context, group *errgroup.Group, cluster string, m *enrollment.Membership, main *brokersession.Session, ledger *exchange.Exchange, k kubernetes.Interface, log *slog.Logger) error {
	broker := main.Broker
	engine := match.New()
	policy := sharing.NewPolicy(sharing.PolicyOptions{Client: a.mgr.GetClient(), Engine: engine})
	inv := inventory.New(k, inventory.Options{Logger: log, Owner: liqo.Creator, Consumer: consumerOf(ledger)})
	var own transport.Broker // this cluster's connector; nil: it has none
	ledgers := map[string]*exchange.Exchange{ledgerName: ledger}
	if a.ConnectorListen != "" {
		c, err := connector.New(ctx, connector.Options{
			Cluster: cluster, Key: m.Key(), Ledger: ledger, Listen: a.ConnectorListen, URL: a.ConnectorURL, MarketClock: a.Clock, Log: log,
			Journal: kube.New(a.mgr.GetClient(), client.ObjectKey{Namespace: a.Namespace, Name: connector.ObjectName}, kube.Parts),
		})
		if err != nil {
			return err
		}
		own, ledgers[connector.ObjectName] = c.Broker(), c.Market()
		group.Go(func() error { return c.Run(ctx) })
	}
	addresses := peeraddress.New(peeraddress.Options{Allow: a.peerRanges, Kubernetes: k, Log: log})
	addresses.ReadRanges(ctx)
	group.Go(func() error { return addresses.Run(ctx) })
	open := &brokersession.Sessions{}
	open.Add(main)
	outlets := brokersession.Outlets{Broker: broker, Sessions: open, Connector: own}
	here, err := a.findLiqo(ctx, addresses, policy.AdvertiseAgain, log)
	if err != nil {
		return err
	}
	var peersChanged, peeringsChanged, offersChanged, brokersChanged, requestsChanged kubeobject.Trigger
	lookAtPeering := func(peer string, role api.PeeringRole) {
		if here != nil { // else there are no peerings
			peeringsChanged.Add(a.Namespace, api.PeeringName(peer, role))
		}
	}
	roots, err := a.trustRoots()
	if err != nil {
		return err
	}
	known := peers.New(peers.Options{
		Client: a.mgr.GetClient(), Namespace: a.Namespace, Market: ledger, Events: a.mgr.GetEventRecorder("bourse-agent"),
		Sharing: policy.Sharing, Roots: roots, Trigger: &peersChanged,
		StateChanged: func(cluster string) {
			lookAtPeering(cluster, api.RoleProvider)
			lookAtPeering(cluster, api.RoleConsumer)
		},
	})
	demand := known.Demand()
	relay := brokersession.Relay{Broker: broker, Sessions: open, Ledger: ledger}
	contracts := &contract.Objects{Client: a.mgr.GetClient(), Cluster: cluster, Key: m.Key(), Market: ledger}
	offers := gate.NewOffers(gate.OffersOptions{Client: a.mgr.GetClient(), Cluster: cluster, Namespace: a.Namespace, Key: m.Key(), Market: ledger, Engine: engine, Broker: outlets, Shown: brokersession.Outlets{Broker: broker, Sessions: open}.Catalog, Changed: &offersChanged})
	messenger := handshake.New(handshake.Options{
		Cluster: cluster, Key: m.Key(), Former: m.Former(), Market: ledger, Relay: relay, Trust: demand, Received: lookAtPeering, Log: log,
	})
	card := sharing.CardOptions{Cluster: cluster, Key: m.Key(), Rotations: m.Rotations(), Endorsement: a.Endorsement, Connector: a.ConnectorURL}
	if here != nil {
		card.Liqo = here.FillCard
	}
	advertiser := sharing.New(sharing.Options{
		Client: a.mgr.GetClient(), Object: client.ObjectKey{Namespace: a.Namespace, Name: a.AdvertisementName}, Card: card, Market: ledger,
		Inventory: inv, Policy: policy, Brokers: outlets.All, Schedule: sharing.Schedule{Interval: a.Interval, Aligned: a.PublishAligned}, Log: log,
	})
	gateOptions := gate.Options{
		Cluster: cluster, Key: m.Key(), Former: m.Former(), Market: ledger, Engine: engine, Broker: broker, Log: log, Trust: demand, Fresh: advertiser.Fresh,
	}
	borrowerOptions := requests.BorrowerOptions{Cluster: cluster, Key: m.Key(), Market: ledger, Broker: broker, Trust: demand, Log: log}
	requestOptions := requests.Options{
		Client: a.mgr.GetClient(), Market: ledger, Cluster: cluster, Events: a.mgr.GetEventRecorder("bourse-agent"), Forgotten: open.IsForgotten, Changed: &requestsChanged, Passing: debounce.Passing,
	}
	var used *usage.Usage
	var overstaying func() int // nil without Liqo
	var ensurePeering func(context.Context, *market.Reservation) error
	if here != nil {
		group.Go(func() error { return here.Run(ctx) })
		var peerings *peering.Peerings
		var loans *borrowing.Borrowing
		if used, peerings, loans, err = a.useLiqo(cluster, addresses, policy, messenger, relay, ledger, known, inv, &peeringsChanged, log); err != nil {
			return err
		}
		overstaying = used.Overstaying
		gateOptions.Freed, ensurePeering = used.Freed, peerings.Follow
		borrowerOptions.Reach, borrowerOptions.Fit, borrowerOptions.Joins = here.CheckReach, here.CheckBorrow, a.gateway.Joins()
		requestOptions.Volumes, requestOptions.Unoffloads = a.mgr.GetAPIReader(), loans.Unoffloads
	}
	lends, borrows := gate.New(gateOptions), requests.NewBorrower(borrowerOptions)
	catalog := catalogcache.New(catalogcache.Options{
		Cluster: cluster, Journal: kube.New(a.mgr.GetClient(), client.ObjectKey{Namespace: a.Namespace, Name: catalogcache.ObjectName}, 0), Log: log,
	})
	catalog.Load(ctx)
	advertiseAgain := func() { // it may have forgotten what this cluster has
		policy.AdvertiseAgain()
		go offers.LookAtAll(ctx)
	}
	if own != nil {
		open.Add(brokersession.New(brokersession.Options{Via: cluster, Cluster: cluster, Key: m.Key(), Broker: own, Lends: true}))
	}
	direct := sellers.New(sellers.Options{Cluster: cluster, Key: m.Key(), Ledger: ledger, Sessions: open, Addresses: addresses, Log: log})
	group.Go(func() error { return direct.Run(ctx) })
	more := brokers.New(brokers.Options{
		Client: a.mgr.GetClient(), Namespace: a.Namespace, Main: m, Sessions: open, Ledger: ledger, Catalog: catalog, Changed: &brokersChanged, Joined: advertiseAgain, Log: log,
	})
	group.Go(func() error { return more.Run(ctx) })
	choose := func(ctx context.Context, broker string, r api.Request, ours *market.Reservation) (*requests.Borrower, error) {
		session, err := direct.Choose(ctx, broker, r, ours)
		if session == nil {
			return nil, err
		}
		return borrows.At(session.Via, session.Broker), err
	}
	requestOptions.Borrower = choose
	controller := requests.New(requestOptions)
	follow := reservations.New(reservations.Options{
		Cluster: cluster, Namespace: a.Namespace, Ledger: ledger, Sessions: open, Contracts: contracts, Peer: ensurePeering, Log: log,
		Provider: reservations.Provider{Gate: lends, Offers: offers, Instructions: &gate.Instructions{Client: a.mgr.GetClient(), Namespace: a.Namespace, Events: a.mgr.GetEventRecorder("bourse-agent")}},
		Consumer: reservations.Consumer{Borrower: borrows, Requests: controller},
	})
	watcher := brokersession.NewWatcher(brokersession.WatcherOptions{
		Sessions: open, Catalog: catalog, Reservation: follow.Look, Complete: follow.LookAtAll, Standing: known.RecordState, Log: log,
		Seller:    offers.Compare,
		Handshake: func(document string) { messenger.Receive(ctx, document) },
		Connection: func(s *brokersession.Session, err error) {
			if s.Connection().Record(err) && route.IsBroker(s.Via) {
				advertiseAgain()
			}
			if route.IsBroker(s.Via) {
				brokersChanged.Add(a.Namespace, s.Name())
			}
		},
	})
	finds := a.newDoctor(m, ledgers, relay, open, more, catalog, policy, here, advertiser.ShowHealth)
	if err := a.showMetrics(ctx, group, monitoring.Options{
		Cluster: cluster, Ledger: ledger, Ledgers: ledgers, Main: main.Connection(), Problems: finds.Last, Overstaying: overstaying,
	}); err != nil {
		return err
	}
	if err := a.control(policy, known, &peersChanged, controller, offers, &gate.Approvals{Client: a.mgr.GetClient(), Gate: lends}, more, &requestsChanged); err != nil {
		return err
	}
	group.Go(func() error { return inv.Run(ctx) })
	select {
	case <-inv.Synced():
	case <-ctx.Done():
		return nil
	}
	// The gate answers by what is shared, whom the admin trusts and what there is: all known before anybody asks it.
	if err := policy.Load(ctx); err != nil {
		return err
	}
	if err := known.ReadAll(ctx); err != nil {
		return err
	}
	if err := advertiser.Begin(ctx); err != nil {
		return err
	}
	group.Go(func() error { return finds.Run(ctx) })
	group.Go(func() error { return advertiser.Run(ctx) })
	if used != nil {
		group.Go(func() error { return used.Run(ctx) })
	}
	group.Go(func() error { offers.LookAtAll(ctx); return nil })
	group.Go(func() error { return follow.Run(ctx) })
	group.Go(func() error { return watcher.Run(ctx) })
	group.Go(func() error { return catalog.Run(ctx) })
	users := localapi.New(localapi.Options{
		Cluster: localapi.NewCluster(localapi.ClusterOptions{
			Client: a.mgr.GetClient(), Cluster: cluster, Namespace: a.Namespace, Ledger: ledger, Member: m, Sharing: policy.Sharing,
			Gate: struct {
				*gate.Gate
				*gate.Offers
			}{lends, offers}, Requests: struct {
				*requests.Borrower
				*requests.Controller
			}{borrows, controller}, Brokers: more, Doctor: finds,
		}),
		Brokers: localapi.Brokers{Relay: relay, Connectors: direct, Copy: catalog},
		Socket:  a.Socket, Listen: a.Listen, TokenFile: a.TokenFile, Extend: a.distributedCatalog(here != nil, log), Log: log,
	})
	return users.Run(ctx)
}

// control starts the controllers of the objects that people write.
func (a *agent) control(policy *sharing.Policy, known *peers.Peers, peersChanged *kubeobject.Trigger, controller *requests.Controller, offers *gate.Offers, approvals *gate.Approvals, more *brokers.Brokers, requestsChanged *kubeobject.Trigger) error {
	err := ctrl.NewControllerManagedBy(a.mgr).Named("sharingpolicy").For(&api.SharingPolicy{}).Complete(policy)
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(a.mgr).Named("peer").For(&api.Peer{}).
		WatchesRawSource(peersChanged).Complete(known)
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(a.mgr).Named("offer").For(&api.Offer{}).
		WatchesRawSource(offers.Changed).Complete(offers)
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(a.mgr).Named("broker").For(&api.Broker{}).
		WatchesRawSource(more.Changed).Complete(more)
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(a.mgr).Named("approval").For(&api.ProviderInstruction{}).Complete(approvals)
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(a.mgr).Named("resourcerequest").For(&api.ResourceRequest{}).
		Owns(&api.ReservationInstruction{}). // whether its namespaces are offloaded
		WatchesRawSource(requestsChanged).
		Complete(controller)
}
