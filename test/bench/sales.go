package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
	"github.com/bourse-dev/bourse/internal/agent/federation/direct"
	agentledger "github.com/bourse-dev/bourse/internal/agent/ledger"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/kube"
	"github.com/bourse-dev/bourse/internal/journal/memorytest"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/test/lab"
)

// buyers are how many clusters buy of one connector at the same time.
const buyers = 8

// ledgerTail is after how many events an agent folds its connector's market at the API server.
const ledgerTail = 200

// sales measures what one connector sells without a broker: each buyer asks for a plan, signs, and
// asks again once the seller's signed acceptance is there. The seller's Ledger and its connector's
// market are objects at a real API server, as in its agent, so each sale is some updates of both,
// one after the other; the buyers' ledgers are in memory. All but the API server is in this
// process. There is no goal: the API server sets the pace.
func sales(ctx context.Context, b *bench) ([]Figure, error) {
	c, stop, err := b.lightCluster(ctx, "seller")
	if err != nil {
		return nil, err
	}
	defer stop()
	ctx, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer end()
	m, err := newMarketplace(ctx, c, &running)
	if err != nil {
		return nil, err
	}
	if err := m.open(ctx, &running); err != nil {
		return nil, err
	}
	begin := time.Now()
	took, err := m.sell(ctx, b.lasts(20*time.Second))
	if err != nil {
		return nil, err
	}
	lasted := time.Since(begin)
	requests, err := c.Requests(begin)
	if err != nil {
		return nil, err
	}
	updates := 0
	for _, r := range requests {
		if r.Verb == "update" {
			updates++
		}
	}
	return []Figure{
		plain(fmt.Sprintf("sales at one connector, real API server, %d buyers", buyers),
			float64(len(took))/lasted.Seconds(), "/s"),
		plain("sales at one connector, median", quantile(took, 0.5), "ms"),
		plain("sales at one connector, p99", quantile(took, 0.99), "ms"),
		plain("sales at one connector, updates at the API server for each", float64(updates)/float64(max(1, len(took))), ""),
	}, nil
}

// marketplace is a seller's connector and who knows it.
type marketplace struct {
	kube    kubeclient.Client
	members []*member // the first is the seller
	market  *exchange.Exchange
	url     string
	sold    *arrivals
	agents  []*agent
	digest  string
}

func newMarketplace(ctx context.Context, c *lab.Cluster, running *sync.WaitGroup) (*marketplace, error) {
	config := c.Config()
	config.QPS = -1 // as agents have it
	k, err := kubeclient.New(config, kubeclient.Options{Scheme: scheme.New()})
	if err != nil {
		return nil, err
	}
	m := &marketplace{kube: k, sold: newArrivals()}
	for i := range 1 + buyers {
		key, err := clusterkey.New(rand.Reader)
		if err != nil {
			return nil, err
		}
		m.members = append(m.members, &member{cluster: clusterNumber(i), key: key})
	}
	log := slog.New(slog.DiscardHandler)
	object := kube.New(k, kubeclient.ObjectKey{Namespace: "bourse", Name: direct.ObjectName}, kube.Parts)
	if m.market, err = exchange.Open(ctx, object,
		exchange.Options{Resume: true, SnapshotEvery: ledgerTail, Log: log}); err != nil {
		return nil, err
	}
	running.Go(func() { _ = m.market.Run(ctx) })
	for _, member := range m.members {
		if _, err := m.market.Do(ctx, market.Enroll{Cluster: member.cluster,
			Key: member.key.Public().String(), Source: "connector"}); err != nil {
			return nil, err
		}
		if _, err := m.market.Do(ctx, market.SetMember{Cluster: member.cluster, State: api.MemberActive}); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m.url = "https://" + listener.Addr().String()
	tlsConfig, err := m.members[0].key.ServerTLS(m.members[0].cluster, m.known)
	if err != nil {
		return nil, err
	}
	s := server.New(server.Options{Exchange: m.market, Engine: match.New(), URL: m.url, Rate: 1e6, Log: log})
	running.Go(func() { _ = server.ServeTLS(ctx, listener, tlsConfig, s.For(m.caller), server.Bounds{}) })
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	return m, nil
}

func (m *marketplace) known(cluster string) identity.Fingerprint {
	for _, member := range m.members {
		if member.cluster == cluster {
			return member.key.Public().Fingerprint()
		}
	}
	return identity.Fingerprint{}
}

func (m *marketplace) caller(r *http.Request) (server.Caller, error) {
	cluster, _, err := clusterkey.TLSPeer(*r.TLS, m.known)
	return server.Caller{Role: tlsid.RoleCluster, Name: cluster}, err
}

// open lets the seller and the buyers call, show themselves and trade; the seller puts an offer on sale.
func (m *marketplace) open(ctx context.Context, running *sync.WaitGroup) error {
	for i, member := range m.members {
		config, err := member.key.ClientTLS(member.cluster, m.members[0].cluster, m.known)
		if err != nil {
			return err
		}
		member.broker = client.New(m.url,
			&http.Client{Transport: &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: 16}})
		if err := member.show(ctx); err != nil {
			return err
		}
		ledger, every := journal.Journal(memorytest.New()), uint64(0)
		if i == 0 {
			every = ledgerTail
			ledger = kube.New(m.kube, kubeclient.ObjectKey{Namespace: "bourse", Name: agentledger.ObjectName}, kube.Parts)
		}
		a, err := startAgent(ctx, member, ledger, every, running, m.sold.arrived)
		if err != nil {
			return err
		}
		m.agents = append(m.agents, a)
	}
	seller := m.members[0]
	o, err := signedOffer(seller.key, seller.cluster, 0, 1, offerOf(0, 0))
	if err != nil {
		return err
	}
	if _, err := m.agents[0].ledger.Do(ctx, market.Publish{Offer: o}); err != nil {
		return err
	}
	m.digest = o.Digest
	return seller.broker.PublishOffer(ctx, seller.cluster, o.Signed.Name, o.Document)
}

// sell lets every buyer buy again and again, and returns how long each sale took.
func (m *marketplace) sell(ctx context.Context, lasts time.Duration) ([]time.Duration, error) {
	ctx, stop := context.WithTimeout(ctx, lasts)
	defer stop()
	failed := make(chan error, buyers)
	var all sync.WaitGroup
	for _, buyer := range m.agents[1:] {
		all.Go(func() {
			for ctx.Err() == nil {
				wish := m.sold.wish(time.Now())
				wish.Request = api.Request{Purchase: &api.Purchase{Seller: m.members[0].cluster,
					Offer: "offer-0", Plan: "small", Digest: m.digest}}
				if err := m.buy(ctx, buyer, wish); err != nil && ctx.Err() == nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-failed:
		return nil, err
	default:
	}
	m.sold.mu.Lock()
	defer m.sold.mu.Unlock()
	return m.sold.took, nil
}

// buy makes one purchase and waits until it is Reserved.
func (m *marketplace) buy(ctx context.Context, buyer *agent, wish requests.Wish) error {
	if err := buyer.ask(ctx, wish); err != nil {
		return err
	}
	for ctx.Err() == nil {
		m.sold.mu.Lock()
		_, waits := m.sold.sent[wish.Object.UID]
		m.sold.mu.Unlock()
		if !waits {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}
