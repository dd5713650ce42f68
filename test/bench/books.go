package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/broker"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/sqlite"
	"github.com/bourse-dev/bourse/internal/market"
)

// many is how many clusters one broker is built for.
const many = 10_000

// books are those of a federation that is there already: made in the folder of a broker before it
// starts, because what joins and publishes by the front door would take longer than what is
// measured.
type books struct {
	clusters, reservations int
	// offers are those of each of the first so many clusters, the sellers.
	offers, sellers int
	// region is where all clusters are. Empty: in twenty.
	region string
	// after is how many of the events came after the journal's snapshot.
	after int

	dir       string
	keys      []*clusterkey.Key
	authority *tlsid.Authority
	state     *market.State
	now       market.Time
}

// write makes the journal of a broker, and its CA.
func (b *books) write(ctx context.Context, dir string) (err error) {
	// Certificates say to the second when they were issued: no member may have joined later.
	b.dir, b.now, b.state = dir, market.At(time.Now().Truncate(time.Second)), market.New("")
	if b.authority, err = tlsid.Open(filepath.Join(dir, "ca"), []string{"127.0.0.1"}, time.Now); err != nil {
		return err
	}
	b.keys = make([]*clusterkey.Key, b.clusters)
	members, offers := make([]market.Event, b.clusters), make([]market.Event, b.sellers*b.offers)
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for i := range b.clusters {
		group.Go(func() (err error) {
			if b.keys[i], err = clusterkey.New(rand.Reader); err != nil {
				return err
			}
			if members[i], err = b.member(i); err != nil {
				return err
			}
			if i >= b.sellers {
				return nil
			}
			for n := range b.offers {
				if offers[i*b.offers+n], err = b.offer(i, n); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	reserved, err := b.reserved()
	if err != nil {
		return err
	}
	if err := b.advertise(); err != nil {
		return err
	}
	return b.store(ctx, append(append(members, offers...), reserved...))
}

// store writes the events: all but the last ones as a snapshot.
func (b *books) store(ctx context.Context, events []market.Event) error {
	j := sqlite.New(filepath.Join(b.dir, broker.JournalFile))
	defer j.Close()
	folded := len(events) - b.after
	for _, e := range events[:folded] {
		b.state.Apply(e)
	}
	head := journal.Genesis()
	head.Revision = b.state.Revision
	if err := j.Begin(ctx, head, b.state.Snapshot()); err != nil {
		return err
	}
	for rest := events[folded:]; len(rest) > 0; {
		batch := rest[:min(100, len(rest))]
		rest = rest[len(batch):]
		var encoded [][]byte
		for _, e := range batch {
			b.state.Apply(e)
			data, err := e.Append(nil)
			if err != nil {
				return err
			}
			encoded = append(encoded, data)
		}
		next, err := j.Append(ctx, head, encoded)
		if err != nil {
			return err
		}
		head = next
	}
	return nil
}

func clusterNumber(i int) string { return fmt.Sprintf("cluster-%05d", i) }

// properties differ as those of many clusters do: one in five has GPUs.
func (b *books) properties(i int) api.Properties {
	p := api.Properties{
		Region: cmp.Or(b.region, fmt.Sprintf("eu-%d", i%20)), Zones: []string{"a",
			"b"}, Architectures: []string{"amd64"}, Kubernetes: "v1.35.4", Liqo: "v1.2.0",
		APIServer: "https://" + clusterNumber(i) + ".example:6443", Labels: map[string]string{"tier": "gold"},
	}
	if i%5 == 0 {
		p.GPUs = []string{[]string{"NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4"}[i/5%3]}
	}
	return p
}

func (b *books) member(i int) (market.Event, error) {
	card := api.Card{Cluster: clusterNumber(i), Key: b.keys[i].Public().String(), Number: 1, Properties: b.properties(i)}
	signed, err := b.keys[i].Sign(api.DocumentCard, card)
	return market.Event{Time: b.now, Member: &market.Member{
		Cluster: card.Cluster, State: api.MemberActive, Key: card.Key, Joined: b.now, Changed: b.now, Card: &card, Signed: signed,
	}}, err
}

// offerOf is an offer of three plans, and of prices that no two clusters share.
func offerOf(i, n int) api.OfferSpec {
	o := api.OfferSpec{
		Type: []string{"compute", "gpu", "storage", "spot", "batch"}[n%5], Labels: map[string]string{"tier": "gold",
			"support": "8x5"},
		Description: fmt.Sprintf("Capacity of %s for what runs for hours or for months, in whole nodes or in parts of them.",
			clusterNumber(i)),
	}
	for p, cpu := range []string{"2", "4", "16"} {
		o.Plans = append(o.Plans, api.Plan{
			Name: []string{"small", "medium", "large"}[p], Description: "As much as it says, on nodes that others use too.",
			Resources: resources("cpu", cpu, "memory", cpu+"Gi"), Units: &api.Units{Min: 1, Max: 64},
			Price: &api.Price{Amount: fmt.Sprintf("%d.%05d", p, 1+(i*7919+n)%99_991), Currency: "EUR", Period: api.PeriodHour},
		})
	}
	return o
}

func (b *books) offer(i, n int) (market.Event, error) {
	o, err := signedOffer(b.keys[i], clusterNumber(i), n, 1, offerOf(i, n))
	if err != nil {
		return market.Event{}, err
	}
	o.OnSale, o.Changed = true, b.now
	return market.Event{Time: b.now, Offer: o}, nil
}

// signedOffer is a version of the n-th offer of a cluster.
func signedOffer(key *clusterkey.Key, seller string, n int, version int64, spec api.OfferSpec) (*market.Offer, error) {
	document, err := key.Sign(api.DocumentOffer, api.SignedOffer{
		Protocol: api.Protocol, Seller: seller, Name: fmt.Sprintf("offer-%d", n), Version: version, Offer: spec,
	})
	if err != nil {
		return nil, err
	}
	o, err := market.ReadOffer(document)
	if err == nil {
		o.Digest = clusterkey.Digest(document).String()
	}
	return o, err
}

// reserved makes reservations that are Active: each cluster is consumer of some and provider of as many.
func (b *books) reserved() ([]market.Event, error) {
	if b.reservations == 0 {
		return nil, nil
	}
	h := newHolder(nil)
	size, err := amounts.ParseRequest("resources", h.request.Resources)
	if err != nil {
		return nil, err
	}
	var assignment, acceptance string // of the first: the others' are as long
	events := make([]market.Event, 0, b.reservations)
	for i := range b.reservations {
		r := &market.Reservation{
			ID: fmt.Sprintf("r-%016d", i), Consumer: clusterNumber(i % b.clusters), Provider: clusterNumber((i*7 +
				i/b.clusters + 1) % b.clusters),
			Pool: api.GeneralPool, Size: size, Key: fmt.Sprintf("key-%d",
				i), Digest: "0123456789abcdef0123456789abcdef", Request: &h.request,
			State: api.Active, Generation: 1, Created: b.now, Changed: b.now, Until: b.now +
				market.Time((30 * 24 * time.Hour).Milliseconds()),
		}
		if i == 0 {
			a := market.AssignmentOf(r, b.keys[0].Public().Fingerprint().String(), b.keys[1].Public().Fingerprint().String())
			if assignment, err = b.keys[0].Sign(api.DocumentAssignment, a); err != nil {
				return nil, err
			}
			digest := clusterkey.Digest(assignment).String()
			if acceptance, err = b.keys[1].Sign(api.DocumentAcceptance,
				api.Acceptance{Protocol: api.Protocol, Reservation: r.ID, Assignment: digest}); err != nil {
				return nil, err
			}
		}
		r.Assignment, r.Acceptance = assignment, acceptance
		decision := h.decision
		decision.Chosen = r.Provider
		events = append(events, market.Event{Time: b.now,
			Reservation: &market.ReservationEvent{Reservation: r, Why: market.Explain(&decision)}})
	}
	return events, nil
}

// advertise leaves what the clusters last advertised, as a broker that ends well does.
func (b *books) advertise() error {
	all := map[string]*market.Measured{}
	for i := range b.clusters {
		m, err := market.Measure(firstMeasurement())
		if err != nil {
			return err
		}
		all[clusterNumber(i)] = m
	}
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, "advertisements.json"), data, 0o600)
}

// join makes the i-th cluster's certificate.
func (b *books) join(i int, brokerURL string) (*member, error) {
	broker, err := url.Parse(brokerURL)
	if err != nil {
		return nil, err
	}
	m := &member{cluster: clusterNumber(i), key: b.keys[i], address: broker.Host, measured: firstMeasurement()}
	key, err := tlsid.NewKey()
	if err != nil {
		return nil, err
	}
	csr, err := tlsid.NewCSR(key)
	if err != nil {
		return nil, err
	}
	certificate, err := b.authority.SignMember(csr, m.cluster)
	if err != nil {
		return nil, err
	}
	if m.tls, err = tlsid.NewClient(key, certificate, b.authority.CAPEM(), time.Now); err != nil {
		return nil, err
	}
	m.broker = client.New(brokerURL, m.http())
	return m, nil
}
