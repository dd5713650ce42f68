package reservations

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// senders are the columns of the table "Whose word counts, by who sends it" of THREAT_MODEL.md.
var senders = []string{"the broker where it was made", "another broker",
	"its own connector", "another cluster's connector"}

func (b *brokersOf) sender(column int) *session.Session {
	return []*session.Session{b.main, b.other, b.own, b.seller}[column]
}

// atProvider shows milan's agent a reservation of rome's that the main broker made, and returns
// what a sender's word changes. bound says how far it is: nil: not accepted, false: accepted, true:
// bound.
func atProvider(t *testing.T, by int, bound *bool,
	shows func(rome, milan *transporttest.Party, d *transporttest.Deal) *transport.Reservation) string {
	rome, milan := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "milan")
	b := newBrokersOf(t, milan)
	d := transporttest.NewDeal(rome, milan, "r-1", "2", b.options.Ledger.Now().Go())
	var before *market.Reservation
	if bound != nil {
		if *bound {
			b.mainAsked.OnAccept = func(_, acceptance string) (transport.Reservation,
				error) {
				return *d.Reserved(acceptance), nil
			}
		}
		before = b.hears(b.main, d.Signed())
	}
	shown := shows(rome, milan, d)
	for _, broker := range []*transporttest.Broker{b.mainAsked, b.otherAsked, b.ownAsked} {
		broker.OnAccept = func(_, acceptance string) (transport.Reservation, error) {
			if d.Shown().Payload.Change.Pending() {
				return *d.Changed(acceptance), nil
			}
			return transport.Reservation{}, transporttest.Away
		}
	}
	return b.effect(before, by, shown)
}

// atConsumer shows rome's agent a reservation of its own at oslo, in the same way.
func atConsumer(t *testing.T, by int, bound bool,
	shows func(rome, oslo *transporttest.Party, d *transporttest.Deal) *transport.Reservation) string {
	rome, oslo := transporttest.NewParty(t, "rome"), transporttest.NewParty(t, "oslo")
	b := newBrokersOf(t, rome)
	if _, err := b.options.Ledger.Do(t.Context(),
		market.Enroll{Cluster: "oslo", Key: oslo.Key.Public().String()}); err != nil {
		t.Fatal(err)
	}
	d := transporttest.NewDeal(rome, oslo, "r-1", "2", b.options.Ledger.Now().Go())
	shown := d.Signed()
	b.notes(shown)
	before, err := b.options.Ledger.Reservation(t.Context(), "r-1")
	if err != nil {
		t.Fatal(err)
	}
	if bound {
		if before = b.hears(b.main, d.Reserved("")); before.State != api.Reserved {
			t.Fatalf("it is %s", before.State)
		}
	}
	return b.effect(before, by, shows(rome, oslo, d))
}

// effect returns, in the table's words, what a sender's word changes in the Ledger.
func (b *brokersOf) effect(before *market.Reservation, by int, shown *transport.Reservation) string {
	after := b.hears(b.sender(by), shown)
	switch {
	case before == nil && after == nil:
	case before == nil:
		return "takes it in"
	case before.State != after.State && (after.State == api.Releasing || after.State.Over()):
		return "ends it"
	case before.State != after.State:
		return "binds it"
	case before.Generation != after.Generation:
		return "changes it"
	case before.Acceptance != after.Acceptance || before.Via != after.Via:
		return "something else"
	}
	return "—"
}

// Each reservation has one broker, whose word counts for what no party signed. Each cell of the
// table is tested, also the empty ones.
func TestWhoseWordCountsBySender(t *testing.T) {
	type parties = *transporttest.Party
	yes, no := true, false
	tries := map[string]func(*testing.T, int) string{
		"provider: a new assignment": func(t *testing.T, by int) string {
			return atProvider(t, by, nil, func(_, _ parties, d *transporttest.Deal) *transport.Reservation { return d.Signed() })
		},
		"provider: that an acceptance is recorded": func(t *testing.T, by int) string {
			return atProvider(t, by, &no, func(_, _ parties, d *transporttest.Deal) *transport.Reservation {
				return d.Reserved("")
			})
		},
		"provider: that what is accepted failed": func(t *testing.T, by int) string {
			return atProvider(t, by, &no, func(_, _ parties, d *transporttest.Deal) *transport.Reservation {
				return d.Over(api.Failed, api.ReasonNotAccepted)
			})
		},
		"provider: a signed change": func(t *testing.T, by int) string {
			return atProvider(t, by, &yes, func(_, _ parties,
				d *transporttest.Deal) *transport.Reservation {
				return d.Changing("1", "")
			})
		},
		"provider: an end that the consumer signed": func(t *testing.T, by int) string {
			return atProvider(t, by, &yes, func(rome, _ parties, d *transporttest.Deal) *transport.Reservation {
				return d.Ending(rome, api.ReasonReleased)
			})
		},
		"provider: that it is over, unsigned": func(t *testing.T, by int) string {
			return atProvider(t, by, &yes, func(_, _ parties, d *transporttest.Deal) *transport.Reservation {
				return d.Over(api.Released, api.ReasonReleased)
			})
		},
		"consumer: the provider's acceptance": func(t *testing.T, by int) string {
			return atConsumer(t, by, false, func(_, _ parties,
				d *transporttest.Deal) *transport.Reservation {
				return d.Reserved("")
			})
		},
		"consumer: that what it signed failed": func(t *testing.T, by int) string {
			return atConsumer(t, by, false, func(_, _ parties, d *transporttest.Deal) *transport.Reservation {
				return d.Over(api.Failed, api.ReasonNotAccepted)
			})
		},
		"consumer: an end that the provider signed": func(t *testing.T, by int) string {
			return atConsumer(t, by, true, func(_, oslo parties, d *transporttest.Deal) *transport.Reservation {
				return d.Ending(oslo, api.ReasonRevokedByProvider)
			})
		},
		"consumer: that it is over, unsigned": func(t *testing.T, by int) string {
			return atConsumer(t, by, true, func(_, _ parties, d *transporttest.Deal) *transport.Reservation {
				return d.Over(api.Released, api.ReasonReleased)
			})
		},
	}
	text, err := os.ReadFile("../../../THREAT_MODEL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text),
		"| "+strings.Join(append([]string{"an agent receives"}, senders...), " | ")+" |\n")
	if !found {
		t.Fatal("THREAT_MODEL.md has no such table")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if !strings.HasPrefix(cells[0], "--") {
			rows[cells[0]] = cells[1:]
		}
	}
	for what, try := range tries {
		t.Run(what, func(t *testing.T) {
			var got []string
			for by := range senders {
				got = append(got, try(t, by))
			}
			if !slices.Equal(got, rows[what]) {
				t.Errorf("the table says\n  %s\nand the code\n  %s", strings.Join(rows[what], " | "), strings.Join(got, " | "))
			}
		})
	}
	for what := range rows {
		if tries[what] == nil {
			t.Errorf("THREAT_MODEL.md has %q, which nothing here tries", what)
		}
	}
}
