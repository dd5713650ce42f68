// Package federation runs a whole federation in one process: a real broker with its
// journal, CA and TLS, and real agents over simulated clusters. The demo is one, and so are
// the tests and measurements that need many agents.
package federation

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/config"
	"github.com/bourse-dev/bourse/internal/agent"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/agent/settings"
	"github.com/bourse-dev/bourse/internal/broker"
	"github.com/bourse-dev/bourse/internal/compat/prototypes"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	objects "github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// Member is one cluster of the federation.
type Member struct {
	sim.Options
	// Sharing is its SharingPolicy; nil: it is only a consumer.
	Sharing *api.Sharing
	// Connector lets others deal with it without the broker.
	Connector bool
	// Alone keeps it out of the broker: it deals with the clusters that its people add.
	Alone bool
	// DistributedCatalog serves that prototype's interface at Socket; the broker serves its own, then.
	DistributedCatalog bool
	// Offers are what it sells, by name.
	Offers map[string]api.OfferSpec
	// Pools are its VirtualNodePools, by name. Their virtual nodes are simulated, and so is its Work.
	Pools map[string]api.VirtualNodePoolSpec
	Work  *Work
	// Through, if set, are the objects through which it reaches the broker, instead of by REST. An
	// operator has to approve it.
	Through *objects.Access
	// Socket is where its people reach its agent. Default: DIR/NAME.sock.
	Socket string

	// Address is set by Start: that of its connector.
	Address string
	// Cluster, Objects and People are set by Start: the cluster, its API, and its admin, who asks at Socket.
	Cluster *sim.Cluster
	Objects kube.Client
	People  *cluster.Client
	run     func() // starts its agent
	stop    func() // and stops it
}

// Federation is a running one.
type Federation struct {
	// Broker is its own; members can join others besides.
	*Broker
	Dir        string
	Members    map[string]*Member
	host       string // where the brokers and the connectors listen
	prototypes prototypes.Options
	clock      *clock
	group      *errgroup.Group
	stop       context.CancelFunc
	ctx        context.Context
	log        *slog.Logger
}

// Broker is a broker that members can join.
type Broker struct {
	Name, URL string
	// Operator acts as its operator.
	Operator *client.Client
	f        *Federation
	stop     func()
}

// Kinds are our kinds, for a simulated API.
func Kinds() []kubeapi.Type { return kinds() }

var kinds = sync.OnceValue(func() (all []kubeapi.Type) {
	files, _ := fs.Glob(config.Kinds, "crd/*.yaml") // the pattern is well formed
	for _, file := range files {
		text, err := config.Kinds.ReadFile(file)
		if err != nil {
			panic(err) // they are embedded
		}
		kind, err := kubeapi.CustomType(text)
		if err != nil {
			panic(fmt.Sprintf("%s: %v", file, err)) // they are ours
		}
		all = append(all, kind)
	}
	return all
})

// Start starts a federation whose files are in dir. It returns when the broker serves and every agent has
// been started with a token of its own.
func Start(ctx context.Context, dir string, log *slog.Logger, members ...*Member) (*Federation, error) {
	return StartWith(ctx, dir, log, prototypes.Options{}, members...)
}

// StartWith starts one whose broker serves interfaces of the prototypes, too.
func StartWith(ctx context.Context, dir string, log *slog.Logger,
	interfaces prototypes.Options, members ...*Member) (*Federation, error) {
	return StartAt(ctx, "127.0.0.1", dir, log, interfaces, members...)
}

// StartAt starts one whose broker and connectors listen at an address of loopback, such as ::1.
func StartAt(ctx context.Context, host, dir string, log *slog.Logger,
	interfaces prototypes.Options, members ...*Member) (*Federation, error) {
	ctx, stop := context.WithCancel(ctx)
	interfaces.DistributedCatalog = interfaces.DistributedCatalog ||
		slices.ContainsFunc(members, func(m *Member) bool { return m.DistributedCatalog })
	f := &Federation{Dir: dir, host: host, prototypes: interfaces, clock: newClock(),
		Members: map[string]*Member{}, group: &errgroup.Group{}, stop: stop, ctx: ctx, log: log}
	var err error
	if f.Broker, err = f.StartOther("broker"); err != nil {
		return nil, f.failed(err)
	}
	for i, m := range members {
		m.Seed += uint64(i + 1)
		if err := f.startMember(ctx, m, log); err != nil {
			return nil, f.failed(err)
		}
	}
	return f, nil
}

func (f *Federation) failed(err error) error {
	f.stop()
	_ = f.group.Wait()
	return err
}

// StartOther starts another broker.
func (f *Federation) StartOther(name string) (*Broker, error) {
	b := &Broker{Name: name, f: f, Operator: client.New("unix://"+filepath.Join(f.Dir, name+".sock"), nil)}
	return b, b.Start()
}

// Start starts the broker, where it was if it was stopped.
func (b *Broker) Start() error {
	f, address := b.f, strings.TrimPrefix(b.URL, "https://")
	if address == "" {
		address = f.freeAddress()
	}
	ctx, stop := context.WithCancel(f.ctx)
	ready, ended, closed := make(chan string, 1), make(chan error, 1), make(chan struct{})
	b.stop = func() { stop(); <-closed }
	f.group.Go(func() error {
		defer close(closed)
		err := broker.Run(ctx, broker.Options{
			Dir: filepath.Join(f.Dir, b.Name), Listen: address, Socket: filepath.Join(f.Dir, b.Name+".sock"),
			Prototypes: f.prototypes, Clock: f.clock, Log: f.log.With("part", b.Name),
			Ready: func(url string) { ready <- url },
		})
		ended <- err
		return err
	})
	select {
	case b.URL = <-ready:
		return nil
	case err := <-ended:
		stop()
		return fmt.Errorf("the broker did not start: %w", err)
	}
}

// Stop stops the broker alone, and waits for its end: the members go on.
func (b *Broker) Stop() { b.stop() }

func (f *Federation) startMember(ctx context.Context, m *Member, log *slog.Logger) (err error) {
	m.Types = append(slices.Clip(Kinds()), kubeapi.Type{GroupVersion: corev1.SchemeGroupVersion, Kind: "PersistentVolumeClaim",
		Resource: "persistentvolumeclaims", Namespaced: true, Status: true})
	if m.Cluster, err = sim.NewCluster(ctx, m.Options); err != nil {
		return err
	}
	if m.Objects, err = kube.New(m.Cluster.API.Config(), kube.Options{Scheme: scheme.New()}); err != nil {
		return err
	}
	var written []kube.Object
	if m.Sharing != nil {
		written = append(written, &api.SharingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: *m.Sharing})
	}
	for name, spec := range m.Offers {
		meta := metav1.ObjectMeta{Namespace: api.Namespace, Name: name}
		written = append(written, &api.Offer{ObjectMeta: meta, Spec: spec})
	}
	for name, spec := range m.Pools {
		written = append(written, &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
		for _, namespace := range spec.Namespaces {
			written = append(written, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		}
	}
	for _, o := range written {
		if err := m.Objects.Create(ctx, o); err != nil {
			return err
		}
	}
	if len(m.Pools) > 0 {
		f.group.Go(func() error { m.simulate(ctx); return nil })
	}
	join := ""
	if m.Through == nil && !m.Alone {
		token, err := f.Operator.CreateToken(ctx, m.Name, time.Hour)
		if err != nil {
			return err
		}
		join = token.Token
	}
	if m.Socket == "" {
		m.Socket = filepath.Join(f.Dir, m.Name+".sock")
	}
	m.People = cluster.At(client.New("unix://"+m.Socket, nil), m.Objects)
	f.Members[m.Name] = m
	url := ""
	if m.Connector {
		m.Address = f.freeAddress()
		url = "https://" + m.Address
	}
	m.run = func() {
		ctx, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		m.stop = func() { stop(); <-ended }
		f.group.Go(func() error {
			defer close(ended)
			return agent.Run(ctx, settings.Options{
				Kubernetes: m.Cluster.API.Config(), Log: log.With("part", "agent"),
				Member: settings.Member{
					ClusterID: m.Name, Join: join, NoBroker: m.Alone,
					Objects: m.Through, Identity: store.InDir(filepath.Join(f.Dir, m.Name)),
				},
				Liqo:      settings.Liqo{Off: len(m.Pools) == 0},
				Simulated: settings.Simulated{VirtualNodes: len(m.Pools) > 0, Clock: f.clock},
				Peers:     settings.Peers{Ranges: []string{"127.0.0.0/8", "::1/128"}},
				Listen: settings.Listen{
					Socket: m.Socket, DistributedCatalog: m.DistributedCatalog, Connector: m.Address, ConnectorURL: url,
				},
			})
		})
	}
	m.run()
	return nil
}

// StopMember stops the agent of a member, and waits for its end; its cluster goes on. StartMember
// starts it again.
func (f *Federation) StopMember(name string) { f.Members[name].stop() }

// StartMember starts the agent of a member that was stopped.
func (f *Federation) StartMember(name string) { f.Members[name].run() }

// freeAddress is one on loopback that nobody listens at. No outgoing connection can take its port meanwhile.
func (f *Federation) freeAddress() string {
	for {
		address := net.JoinHostPort(f.host, strconv.Itoa(20_000+rand.IntN(10_000)))
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
}

// Live makes pods and nodes come and go in all clusters, one thing every interval each.
func (f *Federation) Live(ctx context.Context, interval time.Duration) {
	for _, m := range f.Members {
		f.group.Go(func() error {
			ticker := time.NewTicker(interval)
			defer ticker.Stop()
			m.Cluster.Live(ctx, ticker.C)
			return nil
		})
	}
}

// Stop ends all parts and returns the first error.
func (f *Federation) Stop() error {
	f.stop()
	return f.group.Wait()
}
