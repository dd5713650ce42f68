// Package authority holds the table "Whose word counts for what" of THREAT_MODEL.md to the code: it
// shows each document, signed by each party, at each door, and compares what that changes with the
// cell.
package authority

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// signers are the columns of the table: whose word it is.
var signers = []string{"consumer", "its former key", "provider",
	"its former key", "another member", "a stranger of its name", "nobody"}

// doors are where documents are shown, and how each signer's is tried there. A try returns what it changed.
var doors = map[string]map[string]func(t *testing.T, c *cast, by int) string{
	"broker":   atTheBroker,
	"gate":     atTheGate,
	"consumer": atTheConsumer,
}

// TestWhoseWordCountsForWhat tries every cell, also the empty ones.
func TestWhoseWordCountsForWhat(t *testing.T) {
	rows := table(t)
	for door, documents := range doors {
		for document := range documents {
			if rows[row{document, door}] == nil {
				t.Errorf("THREAT_MODEL.md has no row for %s at %s", document, door)
			}
		}
	}
	for at, cells := range rows {
		try := doors[at.door][at.document]
		if try == nil {
			t.Errorf("THREAT_MODEL.md says something of %s at %s, which nothing here tries", at.document, at.door)
			continue
		}
		t.Run(at.document+" at "+at.door, func(t *testing.T) {
			t.Parallel()
			got := make([]string, len(signers))
			for i := range signers {
				got[i] = try(t, newCast(t), i)
			}
			if without := try(t, newCast(t), len(signers)); without != got[len(signers)-1] {
				t.Errorf("an unsigned document changes %q, and none at all %q", got[len(signers)-1], without)
			}
			if !slices.Equal(got, cells) {
				t.Errorf("the table says\n  %s\nand the code\n  %s", strings.Join(cells, " | "), strings.Join(got, " | "))
			}
		})
	}
}

type row struct{ document, door string }

// table reads the rows of the table, and checks its columns.
func table(t *testing.T) map[row][]string {
	t.Helper()
	text, err := os.ReadFile("../../../THREAT_MODEL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Whose word counts for what\n")
	if !found {
		t.Fatal("THREAT_MODEL.md has no such section")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rows, header := map[row][]string{}, false
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case len(cells) != len(signers)+3 || strings.HasPrefix(cells[0], "--"):
		case !header:
			if header = true; !slices.Equal(cells[2:2+len(signers)], signers) {
				t.Fatalf("the columns are %q, want %q", cells[2:2+len(signers)], signers)
			}
		default:
			rows[row{cells[0], cells[1]}] = cells[2 : 2+len(signers)]
		}
	}
	if len(rows) == 0 {
		t.Fatal("the table is empty")
	}
	return rows
}

// cast is who takes part: two clusters, which have given up a key each, a third one, and what poses
// as the first.
type cast struct {
	rome, formerRome, milan, formerMilan, oslo, stranger *transporttest.Party
}

func newCast(t *testing.T) *cast {
	c := &cast{rome: transporttest.NewParty(t, "rome"), milan: transporttest.NewParty(t, "milan"),
		oslo: transporttest.NewParty(t, "oslo"), stranger: transporttest.NewParty(t, "rome")}
	c.formerRome, c.formerMilan = c.rome.Rotate(), c.milan.Rotate()
	return c
}

// absent is in the place of a signer where there is no document at all. It is tried as nobody's other word.
var absent = &transporttest.Party{}

// signer is whose word it is in a column; nil: nobody's; absent: there is none.
func (c *cast) signer(column int) *transporttest.Party {
	return []*transporttest.Party{c.rome, c.formerRome, c.milan, c.formerMilan, c.oslo, c.stranger, nil, absent}[column]
}

// signs says whether somebody signs.
func signs(by *transporttest.Party) bool { return by != nil && by != absent }

// sign signs as one of them. By nobody it is what the honest signer would sign, without a signature.
func sign(by, honest *transporttest.Party, kind string, payload any) string {
	switch by {
	case absent:
		return ""
	default:
		return by.Sign(kind, payload)
	case nil:
	}
	document := honest.Sign(kind, payload)
	return document[:strings.LastIndex(document, ".")+1]
}

// id is the cluster that a signer is, or claims to be.
func id(by, honest *transporttest.Party) string {
	if !signs(by) {
		return honest.ID
	}
	return by.ID
}

func fingerprint(by, honest *transporttest.Party) string {
	if !signs(by) {
		by = honest
	}
	return by.Key.Public().Fingerprint().String()
}

// terms are those of the contract in all of the stories: its seller may take it back, with ten
// minutes' notice.
func (c *cast) terms() (offer string, sale *api.Sale) {
	offer = c.milan.SignOffer("web", 1, api.OfferSpec{Type: "compute", Plans: []api.Plan{{
		Name: "spot", Resources: transporttest.CPU("2"), Notice: &metav1.Duration{Duration: 10 * time.Minute},
		Price: price(),
	}}})
	return offer, &api.Sale{Offer: clusterkey.Digest(offer).String(), Plan: "spot", Units: 1}
}

func (c *cast) endOf(by, honest *transporttest.Party, reservation, assignment string, generation int64) string {
	return sign(by, honest, api.DocumentEnd, api.End{Protocol: api.Protocol,
		Reservation: reservation, Assignment: clusterkey.Digest(assignment).String(),
		Generation: generation, By: id(by, honest), Consumer: "rome", Provider: "milan", Reason: api.ReasonReleased})
}

func (c *cast) reclaimOf(by *transporttest.Party, reservation, assignment string, now time.Time) string {
	return sign(by, c.milan, api.DocumentReclaim,
		api.Reclaim{Protocol: api.Protocol, Reservation: reservation, Assignment: clusterkey.Digest(assignment).String(),
			Consumer: "rome", Provider: "milan", Issued: transporttest.Seconds(now), Effective: transporttest.Seconds(now.Add(11 * time.Minute))})
}

// cardOf is a card of a cluster that shows another connector than before, by the key of its signer.
func cardOf(cluster, by *transporttest.Party) string { return card(cluster, by, false) }

// legacyOf is such a card that says that the broker holds the key: a deputy's, for a cluster that has none.
func legacyOf(cluster, by *transporttest.Party) string { return card(cluster, by, true) }

func card(cluster, by *transporttest.Party, legacy bool) string {
	key := cluster.Key.Public()
	if signs(by) {
		key = by.Key.Public()
	}
	return sign(by, cluster, api.DocumentCard, api.Card{Cluster: cluster.ID,
		Key: key.String(), Number: time.Now().UnixMicro() + 1,
		Properties: api.Properties{Region: "eu",
			Connector: "https://elsewhere:1"}, Rotations: cluster.Rotations, Legacy: legacy})
}

// successorOf is a card of a new key that a signer names as the successor of the cluster's key.
func successorOf(t *testing.T, cluster, by *transporttest.Party) string {
	t.Helper()
	next := *cluster
	next.Key = transporttest.NewParty(t, cluster.ID).Key
	signer := cluster
	if signs(by) {
		signer = by
	}
	word, err := trust.Rotate(signer.Key, next.Key.Public(), cluster.ID, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		word = word[:strings.LastIndex(word, ".")+1]
	}
	if by != absent {
		next.Rotations = append(slices.Clip(cluster.Rotations), word)
	}
	return next.Card(api.Properties{Region: "eu"})
}

// seen is what a market says, without what changes by itself.
type seen struct {
	Members      map[string][4]string
	Reservations map[string]*market.Reservation
	Offers       []string
}

func see(t *testing.T, x *exchange.Exchange) (out seen) {
	t.Helper()
	out.Members, out.Reservations = map[string][4]string{}, map[string]*market.Reservation{}
	err := x.Read(context.Background(), func(s *market.State) {
		for _, m := range s.Members() {
			out.Members[m.Cluster] = [4]string{m.Key, m.Signed, m.Connector, fmt.Sprint(m.TLSKeys)}
		}
		for _, r := range s.All() {
			out.Reservations[r.ID] = r
		}
		for _, o := range s.Offers() {
			out.Offers = append(out.Offers, o.Digest)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// nothing is what an empty cell says.
const nothing = "—"

// effect says in the table's words what has changed.
func effect(before, after seen) string {
	for cluster, now := range after.Members {
		was := before.Members[cluster]
		switch {
		case was[0] != "" && was[0] != now[0]:
			return "its next key"
		case was[3] != now[3]:
			return "its certificate"
		case was != now:
			return "its card"
		}
	}
	if len(after.Reservations) > len(before.Reservations) {
		return "takes it in"
	}
	for id, was := range before.Reservations {
		now := after.Reservations[id]
		if now == nil {
			return "forgets it"
		}
		if what := changed(was, now); what != nothing {
			return what
		}
	}
	if !slices.Equal(before.Offers, after.Offers) {
		return "puts it on sale"
	}
	return nothing
}

func changed(was, now *market.Reservation) string {
	change := func(r *market.Reservation) string {
		if r.Change == nil {
			return ""
		}
		return r.Change.Assignment
	}
	switch {
	case was.State != now.State && was.State == api.Held && now.State == api.Failed:
		return "moves it on"
	case was.State == api.Releasing && now.State.Over():
		return "frees it"
	case was.State != now.State && (now.State == api.Releasing || now.State.Over()):
		return "ends it"
	case was.Generation != now.Generation:
		return "changes it"
	case change(was) != change(now):
		return "asks for it"
	case was.Acceptance != now.Acceptance:
		return "binds both"
	case was.Assignment != now.Assignment:
		return "binds the consumer"
	case was.Reclaim != now.Reclaim:
		return "ends it later"
	case was.State != now.State && now.State == api.Active:
		return "is in use"
	}
	a, _ := json.Marshal(was)
	b, _ := json.Marshal(now)
	if string(a) != string(b) {
		return fmt.Sprintf("changes something: %s becomes %s", a, b)
	}
	return nothing
}

func price() *api.Price { return &api.Price{Amount: "0.10", Currency: "EUR", Period: api.PeriodHour} }
