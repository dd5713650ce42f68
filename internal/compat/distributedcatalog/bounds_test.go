package distributedcatalog_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bourse-dev/bourse/internal/compat/distributedcatalog"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// catalogOf serves the interface beside the API, within bounds.
func catalogOf(t *testing.T, o servertest.Options) *servertest.Federation {
	o.Before = func(ctx context.Context, f *servertest.Federation, members http.Handler) http.Handler {
		return distributedcatalog.Broker(ctx, members,
			distributedcatalog.BrokerOptions{URL: f.URL, Server: f.Server, Log: servertest.Silent()})
	}
	return servertest.Start(t, o)
}

// A member's subscription is no stranger's connection: it stays where strangers crowd.
func TestASubscriberIsNoStranger(t *testing.T) {
	f := catalogOf(t, servertest.Options{Bounds: server.Bounds{Connections: 60,
		Unidentified: 8, Introduction: 50 * time.Millisecond}})
	rome := f.Join("rome")
	c, _, err := websocket.Dial(t.Context(), strings.Replace(f.URL, "https", "wss", 1)+"/subscribe",
		&websocket.DialOptions{HTTPClient: rome.HTTP})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	if _, _, err := c.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	var last net.Conn
	for range 16 {
		if last, err = net.Dial("tcp", strings.TrimPrefix(f.URL, "https://")); err != nil {
			t.Fatal(err)
		}
		defer last.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, _, err := c.Read(ctx); ctx.Err() == nil {
		t.Errorf("the subscription of a member ended: %v", err)
	}
}

// Whole catalogs that a member asks for and does not read are bounded like its other calls, also on
// many connections.
func TestCatalogsInHand(t *testing.T) {
	f := catalogOf(t, servertest.Options{Bounds: server.Bounds{Large: 2, Patience: 100 * time.Millisecond}})
	rome, milan := f.Join("rome"), f.Join("milan")
	milan.Advertise("100")
	spec := transporttest.WebOffer("0.10")
	spec.Description = strings.Repeat("x", 1000)
	for i := range 100 {
		name := fmt.Sprint("o", i)
		if err := milan.PublishOffer(t.Context(), "milan", name, milan.SignOffer(name, 1, spec)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := io.WriteString(f.Dial(rome.HTTP),
			strings.Repeat("GET /catalog HTTP/1.1\r\nHost: b\r\n\r\n", 100)); err != nil {
			t.Fatal(err)
		}
	}
	status := func(by *http.Client) int {
		t.Helper()
		answer, err := by.Get(f.URL + "/catalog")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode
	}
	for deadline := time.Now().Add(time.Minute); status(rome.HTTP) != http.StatusTooManyRequests; {
		if time.Now().After(deadline) {
			t.Fatal("the catalogs that a member reads at once are not bounded")
		}
	}
	if got := status(milan.HTTP); got != http.StatusOK {
		t.Errorf("another member gets %d", got)
	}
}

// The routes count in the rate of their caller, who is told in the prototype's words.
func TestCatalogCallsCount(t *testing.T) {
	const rate, calls = 2, 60
	f := catalogOf(t, servertest.Options{Rate: rate})
	rome := f.Join("rome")
	c, begin := f.Dial(rome.HTTP), time.Now()
	if _, err := io.WriteString(c, strings.Repeat("GET /offer/nobody_x HTTP/1.1\r\nHost: b\r\n\r\n", calls)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	allowed := 0
	for range calls {
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != http.StatusTooManyRequests {
			allowed++
		} else if !strings.Contains(string(said), `"status":"error"`) {
			t.Errorf("a call is refused with %s", said)
		}
	}
	if most := 2*rate + int(rate*time.Since(begin).Seconds()) + 1; allowed > most {
		t.Errorf("%d of %d calls are allowed, want %d at most", allowed, calls, most)
	}
}

// The bounds of the agent's listener hold for the connector: active calls, large bodies and the rate.
func TestCallsOfTheConnectorCount(t *testing.T) {
	for name, c := range map[string]struct{ held, length int }{
		"calls":        {32, 1000},
		"large bodies": {4, 90_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := connectorOf(t, 1000)
			post := func() net.Conn {
				t.Helper()
				conn, err := net.Dial("tcp", url)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
				if _, err := fmt.Fprintf(conn,
					"POST /api/offers HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", c.length); err != nil {
					t.Fatal(err)
				}
				return conn
			}
			for deadline := time.Now().Add(time.Minute); ; {
				if time.Now().After(deadline) {
					t.Fatal("the number of active calls is not bounded")
				}
				for range c.held { // again: those of the last round may have had their time
					post()
				}
				conn := post()
				if _, err := io.WriteString(conn, strings.Repeat(" ", c.length)); err != nil {
					t.Fatal(err)
				}
				answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				said, _ := io.ReadAll(answer.Body)
				conn.Close()
				if answer.StatusCode == http.StatusTooManyRequests && strings.Contains(string(said), " active calls") {
					return
				}
			}
		})
	}
	t.Run("rate", func(t *testing.T) {
		t.Parallel()
		url := connectorOf(t, 1) // a slow machine makes more calls than that, too
		for deadline := time.Now().Add(time.Minute); ; {
			if time.Now().After(deadline) {
				t.Fatal("it is called as often as a caller likes")
			}
			answer, err := http.Get("http://" + url + "/api/cluster/init")
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode == http.StatusTooManyRequests {
				return
			}
		}
	})
}

// connectorOf serves the connector's interface as an agent does, to so many calls a second, and
// returns its address.
func connectorOf(t *testing.T, rate float64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	local := server.Local(nil, nil, rate, servertest.Silent())
	h := distributedcatalog.Connector(ctx, local.For(server.LocalUser),
		distributedcatalog.ConnectorOptions{Server: local, Log: servertest.Silent()})
	go func() { served <- server.Serve(ctx, l, h) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return l.Addr().String()
}
