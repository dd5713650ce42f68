package exchange_test

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal/kube"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/test/raced"
)

// One consumer takes at most half of what a Ledger takes in, however large its documents are:
// others find space.
func TestOneConsumerKeepsNobodyOut(t *testing.T) {
	raced.Skip(t)
	g := newGate(t)
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	g.parts = 12 // half of what an agent's has
	g.start(t)
	taken, refused := 0, 0
	for i := 0; refused < 50 && i < 5000; i += 50 {
		g.settles() // a snapshot that ends leaves space for more
		refused = 0
		g.all(numbered("r", i, i+50), func(id string) {
			c := g.admission(id, "rome", time.Hour)
			c.Document = noise(6 << 10)
			_, err := g.Do(t.Context(), c)
			g.mu.Lock()
			defer g.mu.Unlock()
			switch {
			case err == nil:
				taken++
			case api.CodeOf(err) == api.CodeLedgerFull && strings.Contains(err.Error(), "of rome"):
				refused++
			default:
				t.Errorf("refused by %v", err)
			}
		})
	}
	if use := g.Size().Use(); refused < 50 || use < exchange.Crowded/2 || use > exchange.Crowded*2/3 {
		t.Errorf("%d were taken in, which takes %.2f of the space", taken, use)
	}
	for i := 0; i < 200; i += 20 {
		g.compacts()
		g.binds("paris", time.Hour, numbered("p", i, i+20)...)
	}
	g.must(g.pinning("oslo"))
	g.clock.pass(2*time.Hour, 2*time.Hour)
	for range 100 {
		g.look()
	}
	g.clock.pass(2*time.Hour, 2*time.Hour)
	for range 100 {
		g.look()
	}
	g.hasSpace()
	g.binds("rome", time.Hour, "later")
}

// However much others have, one consumer takes at most half of what they leave.
func TestOneConsumerLeavesHalfOfWhatIsLeft(t *testing.T) {
	raced.Skip(t)
	g := newGate(t)
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	g.parts = 3 // a Ledger that is soon full
	g.start(t)
	asks := func(id, consumer string) error {
		g.compacts()
		c := g.admission(id, consumer, time.Hour)
		c.Document = noise(6 << 10)
		_, err := g.Do(t.Context(), c)
		return err
	}
	for i := 0; g.Size().Use() < exchange.Crowded*3/4; i++ {
		if err := asks(fmt.Sprint("r-", i), fmt.Sprint("borrower-", i%8)); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		err = asks(fmt.Sprint("flood-", i), "rome")
	}
	if use := g.Size().Use(); api.CodeOf(err) != api.CodeLedgerFull || use > exchange.Crowded*0.95 {
		t.Errorf("refused by %v at %.2f of the space", err, use)
	}
	if err := asks("honest", "oslo"); err != nil {
		t.Errorf("another consumer is refused: %v", err)
	}
}

// The books of a connector are a Ledger, too: requests of one known cluster leave space for those of others.
func TestOneClusterDoesNotFillAConnectorsBooks(t *testing.T) {
	x := founded(t, kube.New(newLedgers(), ledgerKey, kube.Parts/3),
		exchange.Options{Resume: true, SnapshotEvery: 200, AppendBytes: 256 << 10, Clock: newClock()})
	x.join("oslo")
	ask := func(id, consumer string) error {
		h := hold(id, 0)
		h.Consumer, h.Size = consumer, amounts.List{{Resource: "cpu", Value: 1}}
		r := api.Request{}
		for range 450 {
			noise := make([]byte, 30)
			_, _ = rand.Read(noise)
			r.Exclude = append(r.Exclude, hex.EncodeToString(noise))
		}
		if err := market.CheckRequest(&r); err != nil {
			t.Fatal(err)
		}
		h.Request = &r
		_, err := x.Do(t.Context(), h)
		return err
	}
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		err = ask(fmt.Sprint("r-", i), "paris")
	}
	if api.CodeOf(err) != api.CodeLedgerFull || x.Size().Use() >= exchange.Crowded {
		t.Errorf("refused by %v at %.2f", err, x.Size().Use())
	}
	if err := ask("honest", "oslo"); err != nil {
		t.Errorf("another is refused: %v", err)
	}
}
