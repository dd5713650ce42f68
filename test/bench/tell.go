package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// connectors is how many agents are connected while some of them are told something.
const connectors = 1_000

// tell measures how soon those whom it concerns are told, of 1,000 agents that are connected: of a
// reservation that its consumer has signed both parties, and no other; of an offer that changed all
// of them. What it takes counts from before the call that makes the news is sent: it includes the
// commit. All clients are in this process, each on connections of its own.
func tell(ctx context.Context, b *bench) ([]Figure, error) {
	if _, err := raiseFiles(); err != nil {
		return nil, err
	}
	full := &books{clusters: b.count(connectors), offers: 5, sellers: 10}
	p, members, err := startFull(ctx, b.orders("tell"), full, full.clusters)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	t := &telling{p: p, members: members, calls: make([]*connection, len(members)),
		watches: make([]*watching, len(members)), heard: map[string][]time.Time{}}
	defer t.close()
	if err := t.connect(ctx); err != nil {
		return nil, err
	}
	offers, err := t.offers(ctx, full, max(b.count(10), 2))
	if err != nil {
		return nil, err
	}
	var both []time.Duration
	var before, after time.Duration
	disk, err := b.beside(func() (err error) {
		if before, err = p.cpu(); err != nil {
			return err
		}
		if both, err = t.commits(ctx, b.lasts(15*time.Second)); err != nil {
			return err
		}
		after, err = p.cpu()
		return err
	})
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("commit to both agents concerned, %d connected", len(members))
	return []Figure{
		atMost(20, name+", p99", quantile(both, 0.99), "ms").to("p99 of one fdatasync meanwhile", disk),
		plain(name+", median", quantile(both, 0.5), "ms"),
		plain(name+", share of the cores that the server had",
			(after-before).Seconds()/b.lasts(15*time.Second).Seconds(), "cores"),
		atMost(1, fmt.Sprintf("offer change to the last of %d connectors, slowest of %d", len(members), len(offers)),
			slices.Max(offers).Seconds(), "s"),
		plain("offer change to the last of them, median", quantile(offers, 0.5)/1000, "s"),
	}, nil
}

// telling are members that are connected, and what they have heard.
type telling struct {
	p       *process
	members []*member
	calls   []*connection
	watches []*watching

	mu    sync.Mutex
	heard map[string][]time.Time // when a reservation that is signed was told of, by ID
	seen  chan string            // what offers were told of
	reads sync.WaitGroup
}

func (t *telling) connect(ctx context.Context) error {
	err := atOnceFor(ctx, len(t.members), func(i int) (err error) {
		if t.calls[i], err = t.members[i].advertises(ctx); err != nil {
			return err
		}
		t.watches[i], err = t.members[i].watches(ctx, "?catalog=all")
		return err
	})
	if err != nil {
		return err
	}
	t.seen = make(chan string, 2*len(t.members))
	for _, w := range t.watches {
		t.reads.Go(func() { t.read(w) })
	}
	return nil
}

func (t *telling) close() {
	for i := range t.members {
		if t.watches[i] != nil {
			t.watches[i].conn.Close()
		}
		if t.calls[i] != nil {
			t.calls[i].conn.Close()
		}
	}
	t.reads.Wait()
}

// read notes when what a watch tells of was there.
func (t *telling) read(w *watching) {
	for w.lines.Scan() {
		now, line := time.Now(), w.lines.Bytes()
		switch {
		case bytes.HasPrefix(line, []byte(`{"type":"RESERVATION"`)) && bytes.Contains(line, []byte(`"assignment":"`)):
			_, rest, _ := bytes.Cut(line, []byte(`"id":"`))
			id, _, _ := bytes.Cut(rest, []byte(`"`))
			t.mu.Lock()
			t.heard[string(id)] = append(t.heard[string(id)], now)
			t.mu.Unlock()
		case bytes.Contains(line, []byte(changeMark)):
			_, rest, _ := bytes.Cut(line, []byte(changeMark))
			change, _, _ := bytes.Cut(rest, []byte(`.`))
			t.seen <- string(change)
		}
	}
}

// changeMark is in the description of an offer that changes.
const changeMark = "This is change "

// offers changes an offer again and again, and returns how long it took until the last member had
// seen the change.
func (t *telling) offers(ctx context.Context, full *books, changes int) (took []time.Duration, err error) {
	for change := range changes {
		spec := offerOf(0, 0)
		spec.Description = fmt.Sprintf("%s%d.", changeMark, change)
		o, err := signedOffer(full.keys[0], t.members[0].cluster, 0, int64(change+2), spec)
		if err != nil {
			return nil, err
		}
		body, err := json.Marshal(api.SignedDocument{Document: o.Document})
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		status, answer, err := t.calls[0].do(t.members[0].request(http.MethodPut,
			"/clusters/"+t.members[0].cluster+"/offers/"+o.Signed.Name, "", body))
		if err != nil || status != http.StatusNoContent {
			return nil, fmt.Errorf("an offer is answered %d: %s (%v)", status, answer, err)
		}
		if err := t.allSee(ctx, change); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
	}
	return took, nil
}

// allSee waits until all members have seen a change.
func (t *telling) allSee(ctx context.Context, change int) error {
	for left := len(t.members); left > 0; {
		select {
		case seen := <-t.seen:
			if seen == fmt.Sprint(change) {
				left--
			}
		case <-time.After(30 * time.Second):
			return fmt.Errorf("%d connectors have not seen a changed offer in 30s", left)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// commitRate is how many reservations a second are signed.
const commitRate = 50

// commits lets members reserve capacity of others, and sign, and returns how long it took until
// both had heard of the signature.
func (t *telling) commits(ctx context.Context, lasts time.Duration) (both []time.Duration, err error) {
	sent := map[string]time.Time{}
	begin := time.Now()
	for i := range int(lasts.Seconds() * commitRate) {
		consumer, provider := i%(len(t.members)/2), len(t.members)-1-i%(len(t.members)/2)
		id, body, err := t.hold(consumer, provider, i)
		if err != nil {
			return nil, err
		}
		select {
		case <-time.After(time.Until(begin.Add(time.Duration(i) * time.Second / commitRate))):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		sent[id] = time.Now()
		status, answer, err := t.calls[consumer].do(t.members[consumer].request(http.MethodPost,
			"/reservations/"+id+"/confirm", "", body))
		if err != nil || status != http.StatusOK {
			return nil, fmt.Errorf("a signed assignment is answered %d: %s (%v)", status, answer, err)
		}
	}
	time.Sleep(time.Second)
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, at := range sent {
		if len(t.heard[id]) != 2 {
			return nil, fmt.Errorf("%d agents have heard of %s, want the two concerned", len(t.heard[id]), id)
		}
		both = append(both, slices.MaxFunc(t.heard[id], time.Time.Compare).Sub(at))
	}
	return both, nil
}

// hold makes a reservation and signs it.
func (t *telling) hold(consumer, provider, n int) (id string, confirm []byte, err error) {
	c, p := t.members[consumer], t.members[provider]
	body, err := json.Marshal(api.ReservationCreate{Request: api.Request{Resources: resources("cpu", "2", "memory", "4Gi"),
		Target: p.cluster}})
	if err != nil {
		return "", nil, err
	}
	status, answer, err := t.calls[consumer].do(c.request(http.MethodPost,
		"/reservations", fmt.Sprintf("Idempotency-Key: tell-%d\r\n", n), body))
	if err != nil || status != http.StatusCreated {
		return "", nil, fmt.Errorf("a request is answered %d: %s (%v)", status, answer, err)
	}
	var r api.Envelope[api.Reservation]
	if err := json.Unmarshal(answer, &r); err != nil {
		return "", nil, err
	}
	held := &r.Payload
	a := api.Assignment{
		Protocol: api.Protocol, Reservation: r.ID, Generation: held.Generation, Consumer: c.cluster, ConsumerKey: c.key.Public().Fingerprint().String(),
		Provider: held.Provider, ProviderKey: p.key.Public().Fingerprint().String(), Pool: held.Pool, Slice: held.Slice, Resources: held.Resources,
		Until: held.Until, Expires: held.Expires(),
	}
	signed, err := c.key.Sign(api.DocumentAssignment, a)
	if err != nil {
		return "", nil, err
	}
	confirm, err = json.Marshal(api.SignedDocument{Document: signed})
	return r.ID, confirm, err
}
