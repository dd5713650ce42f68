package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A watch is an ordinary answer: by HTTP/1.1, after whose last chunk its connection serves other
// calls, and by HTTP/1.0.
func TestWatchIsAnAnswer(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/1.0"} {
		t.Run(protocol, func(t *testing.T) { testWatchIsAnAnswer(t, protocol) })
	}
}

func testWatchIsAnAnswer(t *testing.T, protocol string) {
	f := servertest.Start(t, servertest.Options{})
	rome := f.Join("rome")
	conn, err := tls.Dial("tcp", strings.TrimPrefix(f.URL, "https://"),
		rome.HTTP.Transport.(*http.Transport).TLSClientConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	call := func(path string) *http.Response {
		t.Helper()
		if _, err := fmt.Fprintf(conn, "GET /apis/bourse.dev/v1alpha1%s %s\r\nHost: broker\r\n\r\n",
			path, protocol); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		return answer
	}
	answer := call("/watch")
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%+v", answer)
	}
	lines := json.NewDecoder(answer.Body)
	var last api.WatchEvent
	for last.Type != api.WatchBookmark {
		if err := lines.Decode(&last); err != nil {
			t.Fatal(err)
		}
	}
	f.Exchange.EndWatches()
	if err := lines.Decode(&last); err != nil || last.Type != api.WatchEnd || last.Error == nil {
		t.Errorf("the end is %+v, %v", last, err)
	}
	if err := lines.Decode(&last); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	if protocol == "HTTP/1.1" {
		if answer := call("/clusters"); answer.StatusCode != http.StatusOK {
			t.Errorf("the connection then answers %s", answer.Status)
		}
	}
}

// Over HTTP/2, a watch and calls share one connection. A watch whose reader leaves ends.
func TestWatchOverHTTP2(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	rome := f.Join("rome")
	s := httptest.NewUnstartedServer(f.Server.As(server.Caller{Role: tlsid.RoleCluster, Name: "rome"}))
	s.EnableHTTP2 = true
	var opened atomic.Int64
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.StartTLS()
	defer s.Close()
	by := client.New(s.URL, s.Client())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events, ended := make(chan api.WatchEvent, 100), make(chan error, 1)
	go func() {
		ended <- by.Watch(ctx, "", func(e api.WatchEvent) error { events <- e; return nil })
	}()
	next := func(kind api.WatchType) {
		t.Helper()
		for deadline := time.After(time.Minute); ; {
			select {
			case e := <-events:
				if e.Type == kind {
					return
				}
			case err := <-ended:
				t.Fatalf("the watch ended: %v", err)
			case <-deadline:
				t.Fatalf("no event %s comes", kind)
			}
		}
	}
	next(api.WatchBookmark)
	f.Join("milan").Advertise("8")
	r, err := by.Reserve(t.Context(), "key", transporttest.Request("4"))
	if err != nil || r.Payload.State != api.Held {
		t.Fatalf("%+v, %v", r, err)
	}
	next(api.WatchReservation)
	if _, err := rome.Confirm(t.Context(), r.ID, rome.Assign(r)); err != nil {
		t.Fatal(err)
	}
	next(api.WatchReservation)
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections are open", n)
	}
	cancel()
	watchesOpen(t, 0)
}

// watchesOpen waits until so many watches are open.
func watchesOpen(t *testing.T, n int64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); server.OpenWatch.Load() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d watches are open, want %d", server.OpenWatch.Load(), n)
		}
	}
}

// A watch does not count as an active call of its member. It ends when its reader closes the
// connection, though nothing is sent.
func TestWatchOfAReaderThatLeaves(t *testing.T) {
	f := servertest.Start(t, servertest.Options{Bounds: server.Bounds{Calls: 1, Patience: 100 * time.Millisecond}})
	rome := f.Join("rome")
	watchesOpen(t, 0)
	c := f.Dial(rome.HTTP)
	ask(t, c, "GET "+prefix+"/watch HTTP/1.1\r\nHost: broker\r\n\r\n")
	if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
		t.Fatal(err)
	}
	watchesOpen(t, 1)
	if _, err := rome.Clusters(t.Context()); err != nil {
		t.Errorf("a call beside the watch: %v", err)
	}
	_ = c.Close()
	watchesOpen(t, 0)
}
