package broker_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/broker"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/journal"
	"github.com/bourse-dev/bourse/internal/journal/sqlite"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/test/raced"
)

// crowded is a broker with an SQLite journal and the member rome.
type crowded struct {
	t        *testing.T
	dir      string
	clock    *transporttest.Clock
	operator *client.Client
	socket   *http.Client
	rome     *client.Client // since the second start
	// certificate is rome's.
	certificate *tls.Config
	party       *transporttest.Party
	ended       chan error
	stop        context.CancelFunc
}

func (b *crowded) start() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan string, 1)
	b.stop, b.ended = cancel, make(chan error, 1)
	go func() {
		b.ended <- broker.Run(ctx, broker.Options{Dir: b.dir, Listen: "127.0.0.1:0",
			Clock: b.clock, Log: slog.New(slog.DiscardHandler), Ready: func(url string) { ready <- url }})
	}()
	select {
	case err := <-b.ended:
		b.t.Fatalf("the broker ends: %v", err)
	case url := <-ready:
		b.socket = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context,
			_, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(b.dir, "broker.sock"))
		}}}
		b.operator = client.New("unix://"+filepath.Join(b.dir, "broker.sock"), nil)
		if b.certificate != nil {
			b.rome = client.New(url, &http.Client{Transport: &http.Transport{TLSClientConfig: b.certificate}})
			return
		}
		b.party = transporttest.NewParty(b.t, "rome")
		token := must(join.ParseToken(must(b.operator.CreateToken(ctx, "rome", 0))(b.t).Token))(b.t)
		key := must(tlsid.NewKey())(b.t)
		authority := must(tlsid.Open(filepath.Join(b.dir, "ca"), []string{"127.0.0.1"}, time.Now))(b.t)
		over := func(c *http.Transport) *http.Client { return &http.Client{Transport: c} }
		stranger := client.New(url,
			over(&http.Transport{TLSClientConfig: tlsid.JoinConfig("127.0.0.1", must(authority.Pin())(b.t), time.Now)}))
		joined := must(stranger.Join(ctx, must(join.Submit(token, b.party.Key, join.Request{Protocol: api.Protocol,
			Cluster: "rome", CSR: must(tlsid.NewCSR(key))(b.t), Time: b.clock.Wall()}))(b.t)))(b.t)
		certificate := must(tlsid.NewClient(key, []byte(joined.Certificate), []byte(joined.CA), time.Now))(b.t)
		b.certificate = certificate.Config()
	}
}

// end stops the broker, which must not have ended by itself, and returns its market as its journal has it.
func (b *crowded) end() *market.State {
	b.t.Helper()
	select {
	case err := <-b.ended:
		b.t.Fatalf("the broker has ended: %v", err)
	default:
	}
	b.stop()
	if err := <-b.ended; err != nil {
		b.t.Fatal(err)
	}
	return b.fold()
}

func (b *crowded) fold() *market.State {
	b.t.Helper()
	j := sqlite.New(filepath.Join(b.dir, broker.JournalFile))
	state, _, err := exchange.Rebuild(context.Background(), j.Read)
	if err != nil {
		b.t.Fatal(err)
	}
	return state
}

// now has the broker look at its clock, and returns the time.
func (b *crowded) now() time.Time {
	b.none(api.Rejected)
	return b.clock.Wall()
}

// none waits until no reservation is in a state.
func (b *crowded) none(state api.State) {
	b.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var list api.List[api.Reservation]
		answer, err := b.socket.Get("http://broker" + api.Prefix + "/reservations?limit=1&state=" + string(state))
		if err == nil {
			err = errors.Join(json.NewDecoder(answer.Body).Decode(&list), answer.Body.Close())
		}
		switch {
		case err != nil:
			b.t.Fatal(err)
		case len(list.Items) == 0:
			return
		case time.Now().After(deadline):
			b.t.Fatalf("some are still %s", state)
		}
	}
}

// append writes events beside the broker, which must not run.
func (b *crowded) append(events []market.Event) {
	b.t.Helper()
	j := sqlite.New(filepath.Join(b.dir, broker.JournalFile))
	head := must(j.Load(context.Background(), func(journal.Head, []byte) error { return nil },
		func(journal.Record) error { return nil }))(b.t)
	var batch [][]byte
	size := 0
	for i, e := range events {
		batch = append(batch, must(e.Append(nil))(b.t))
		if size += len(batch[len(batch)-1]); size > 8<<20 || i == len(events)-1 {
			head = must(j.Append(context.Background(), head, batch))(b.t)
			batch, size = nil, 0
		}
	}
	if err := j.Close(); err != nil {
		b.t.Fatal(err)
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A real broker survives what needs more than one batch of its journal: the next key of a member
// with 640 large holds, the removal of a provider with 30,000 reservations, and the end of all
// holds at once. Each is carried out, whole, and a replay agrees.
func TestWhatNeedsMoreThanOneBatch(t *testing.T) {
	raced.Skip(t)
	const holds, bound = 640, 30_000
	b := &crowded{t: t, dir: t.TempDir(), clock: transporttest.NewClock()}
	b.start()
	b.end()
	now := market.At(b.clock.Wall())
	document, large := strings.Repeat("d", 1500), strings.Repeat("<", 20<<10)
	events := []market.Event{{Time: now, Member: &market.Member{Cluster: "milan",
		State: api.MemberActive, Key: "k-milan", Joined: now}}}
	put := func(r *market.Reservation) {
		r.Pool, r.Created, r.Changed, r.Generation = api.GeneralPool, now, now, 1
		r.Until, r.Deadline = now+1e10, now+1e10
		r.Size = amounts.List{{Resource: "cpu", Value: 1}}
		events = append(events, market.Event{Time: now, Reservation: &market.ReservationEvent{Reservation: r}})
	}
	for i := range holds {
		put(&market.Reservation{ID: fmt.Sprint("held-", i), Consumer: "rome",
			Provider: "turin", State: api.Held, HeldUntil: now + 240_000, Assignment: document,
			Request: &api.Request{Where: large}})
	}
	for i := range bound {
		put(&market.Reservation{ID: fmt.Sprint("bound-", i), Consumer: fmt.Sprint("paris-", i%8),
			Provider: "milan", State: api.Reserved, Assignment: document, Acceptance: document[:900]})
	}
	b.append(events)

	b.start()
	if err := b.rome.PutCard(t.Context(), "rome", b.party.Card(api.Properties{})); err != nil {
		t.Fatal(err)
	}
	b.party.Rotate()
	if err := b.rome.PutCard(t.Context(), "rome", b.party.Card(api.Properties{})); err != nil {
		t.Fatalf("the next key of a member with %d holds: %v", holds, err)
	}
	if _, err := b.operator.SetMember(t.Context(), "milan", "remove"); err != nil {
		t.Fatalf("the removal of a provider with %d reservations: %v", bound, err)
	}
	b.end() // perhaps in the middle: the next start goes on
	b.start()
	b.none(api.Reserved)
	state := b.end()
	if got := state.Count()[api.Released]; got != bound {
		t.Errorf("%d of %d have ended", got, bound)
	}

	b.start() // nobody calls it
	for range 20 {
		b.clock.Move(20*time.Second, b.now)
	}
	b.none(api.Held)
	state = b.end()
	if got := state.Count()[api.Expired]; got != holds {
		t.Errorf("%d of %d holds have expired: %v", got, holds, state.Count())
	}
	for i := range holds { // what is owed comes before what is due
		if r := state.Reservation(fmt.Sprint("held-", i)); r.Generation != 2 || r.Assignment != "" {
			t.Fatalf("%s is %s at generation %d", r.ID, r.State, r.Generation)
		}
	}
}
