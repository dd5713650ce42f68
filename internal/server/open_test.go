package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

const prefix = "/apis/bourse.dev/v1alpha1"

func ask(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Error(err)
	}
}

// ends demands that a connection is ended by the server within a time, and returns what came before.
func ends(t *testing.T, c net.Conn, within time.Duration) string {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(within))
	said, err := io.ReadAll(c)
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		t.Errorf("the connection is still open after %s", within)
	}
	return string(said)
}

// A member has as many watches as it may, the newest. What ends says why, and another member's watch stays.
func TestWatchesOfOneMember(t *testing.T) {
	const may, opened = 3, 12
	f := servertest.Start(t, servertest.Options{Bounds: server.Bounds{Watches: may}})
	rome, milan := f.Join("rome"), f.Join("milan")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	ended := make(chan error, opened)
	open := func(of *servertest.Member, ended chan<- error) {
		t.Helper()
		begun := make(chan struct{})
		begin := sync.OnceFunc(func() { close(begun) })
		all.Go(func() {
			err := of.Watch(ctx, "", func(api.WatchEvent) error { begin(); return nil })
			if ctx.Err() == nil {
				ended <- err
			}
		})
		<-begun
	}
	others := make(chan error, 1)
	open(milan, others)
	for range opened {
		open(rome, ended)
	}
	for range opened - may {
		select {
		case err := <-ended:
			if api.CodeOf(err) != api.CodeTooManyRequests {
				t.Errorf("a watch ended with %v", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("the member keeps its watches")
		}
	}
	milan.Advertise("8") // the newest tell on
	select {
	case err := <-ended:
		t.Errorf("one watch more ended: %v", err)
	case err := <-others:
		t.Errorf("another's watch ended: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
}

// To open a watch costs the market more than other calls, and so it counts as many.
func TestWatchesAreNotOpenedOften(t *testing.T) {
	const rate, each = 50, 50 // calls: one watch a second, and a burst of two
	f := servertest.Start(t, servertest.Options{Rate: rate})
	rome := f.Join("rome")
	begin, opened := time.Now(), 0
	for {
		err := rome.Watch(t.Context(), "", func(api.WatchEvent) error { return errEnough })
		if api.CodeOf(err) == api.CodeTooManyRequests {
			return
		}
		if !errors.Is(err, errEnough) {
			t.Fatal(err)
		}
		if opened++; opened > (2*rate+int(rate*time.Since(begin).Seconds()))/each+1 {
			t.Fatalf("%d watches were opened within %s", opened, time.Since(begin))
		}
	}
}

// A peer that does not read loses its connection.
func TestAPeerThatDoesNotReadLosesItsConnection(t *testing.T) {
	f := servertest.Start(t, servertest.Options{Bounds: server.Bounds{Stall: patientStall}})
	rome := f.Join("rome")
	for range 8 {
		ask(t, f.Dial(rome.HTTP), strings.Repeat(readAPI, 300))
	}
	for begun := time.Now(); server.OpenCalls.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatal("nobody calls")
		}
	}
	for begun := time.Now(); server.OpenCalls.Load() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("%d calls wait for who does not read", server.OpenCalls.Load())
		}
	}
}

const (
	readAPI = "GET /openapi.json HTTP/1.1\r\nHost: broker\r\n\r\n"
	// patientStall is a stall for slow peers, and for members that join: a machine with few cores may stop one
	// for some seconds.
	patientStall = 5 * time.Second
)

// A slow reader that takes longer than a stall gets everything.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	const calls = 100 // more than the machines between may hold
	f := servertest.Start(t, servertest.Options{Bounds: server.Bounds{Stall: patientStall}})
	c, err := tls.Dial("tcp", strings.TrimPrefix(f.URL, "https://"),
		f.Join("rome").HTTP.Transport.(*http.Transport).TLSClientConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask(t, c, strings.Repeat(readAPI, calls))
	in := bufio.NewReaderSize(slowly{c, time.Now().Add(patientStall + patientStall/10)}, 8<<10)
	for i := range calls {
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		if said, err := io.ReadAll(answer.Body); err != nil || !strings.HasSuffix(strings.TrimSpace(string(said)), "}") {
			t.Errorf("answer %d: %d bytes are read, %v", i, len(said), err)
		}
		answer.Body.Close()
	}
}

// slowly reads a little at a time until a time.
type slowly struct {
	net.Conn
	until time.Time
}

func (s slowly) Read(into []byte) (int, error) {
	if time.Now().Before(s.until) {
		time.Sleep(10 * time.Millisecond)
	}
	return s.Conn.Read(into)
}

// A body has to come: one that does not ends its connection, also where nobody reads it.
func TestBodiesThatDoNotCome(t *testing.T) {
	t.Parallel()
	f := servertest.Start(t, servertest.Options{Bounds: server.Bounds{Stall: patientStall}})
	rome := f.Join("rome")
	for name, path := range map[string]string{"read": prefix + "/evaluations", "not read": prefix + "/nothing"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := f.Dial(rome.HTTP)
			ask(t, c,
				"POST "+path+" HTTP/1.1\r\nHost: broker\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n{")
			ends(t, c, time.Minute)
		})
	}
}

// A body that comes slowly, for longer than a stall, is read.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	f := servertest.Start(t, servertest.Options{Bounds: server.Bounds{Stall: patientStall}})
	c := f.Dial(f.Join("rome").HTTP)
	body := `{` + strings.Repeat(" ", 250_000) + `"sequence":{"incarnation":1,"number":1},"pools":{}}`
	ask(t, c,
		fmt.Sprintf("PUT %s/clusters/rome/advertisement HTTP/1.1\r\nHost: broker\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", prefix, len(body)))
	for rest := body; rest != ""; time.Sleep(patientStall / 50) {
		n := min(len(rest), 4<<10)
		ask(t, c, rest[:n])
		rest = rest[n:]
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		said, _ := io.ReadAll(answer.Body)
		t.Errorf("a body that comes slowly: %d %s", answer.StatusCode, said)
	}
}

// Active calls and large bodies of a member are bounded. Further calls wait, and then get an error.
// Other members are served.
func TestCallsInHand(t *testing.T) {
	for name, c := range map[string]struct {
		bounds server.Bounds
		length int
	}{
		"calls":        {server.Bounds{Calls: 2, Patience: 100 * time.Millisecond, Stall: 5 * time.Minute}, 1000},
		"large bodies": {server.Bounds{Large: 2, Patience: 100 * time.Millisecond, Stall: 5 * time.Minute}, 100_000},
	} {
		t.Run(name, func(t *testing.T) {
			f := servertest.Start(t, servertest.Options{Bounds: c.bounds})
			rome, milan := f.Join("rome"), f.Join("milan")
			begin := fmt.Sprintf("PUT %s/clusters/rome/advertisement HTTP/1.1\r\nHost: broker\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", prefix, c.length)
			refused := func() bool {
				again := f.Dial(rome.HTTP)
				ask(t, again, begin+strings.Repeat(" ", c.length))
				answer, err := http.ReadResponse(bufio.NewReader(again), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				said, _ := io.ReadAll(answer.Body)
				if answer.StatusCode != http.StatusTooManyRequests {
					return false
				}
				if answer.Header.Get("Retry-After") == "" || !strings.Contains(string(said), " active calls") {
					t.Errorf("it is refused with %v %s", answer.Header, said)
				}
				return true
			}
			if refused() {
				t.Error("the first is refused")
			}
			var holding []net.Conn
			for range 2 {
				c := f.Dial(rome.HTTP)
				ask(t, c, begin)
				holding = append(holding, c)
			}
			for deadline := time.Now().Add(time.Minute); !refused(); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("all are taken")
				}
			}
			if _, err := milan.Clusters(t.Context()); err != nil {
				t.Errorf("another member: %v", err)
			}
			for _, c := range holding {
				_ = c.Close()
			}
			for deadline := time.Now().Add(time.Minute); refused(); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("what has ended still counts")
				}
			}
		})
	}
}

// Connections that say nothing keep no member out.
func TestStrangersMakeWay(t *testing.T) {
	f := servertest.Start(t, servertest.Options{Bounds: server.Bounds{Connections: 60,
		Unidentified: 8, Waiting: 200, Introduction: time.Second}})
	rome := f.Join("rome")
	rome.HTTP.CloseIdleConnections()
	for range 20 {
		c, err := net.Dial("tcp", strings.TrimPrefix(f.URL, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if _, err := rome.Clusters(t.Context()); err != nil {
		t.Errorf("a member beside those who say nothing: %v", err)
	}
}

// A hundred connections of members that come at once from one address wait for each other, and all
// are served. They have longer than a busy machine takes for a handshake.
func TestManyMembersAtOneAddress(t *testing.T) {
	f := servertest.Start(t, servertest.Options{Bounds: server.Bounds{Connections: 60,
		Unidentified: 8, Waiting: 200, Introduction: 5 * time.Minute, Stall: 5 * time.Minute}})
	rome := f.Join("rome")
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			hc := f.HTTP(rome.HTTP.Transport.(*http.Transport).TLSClientConfig)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL+prefix+"/clusters", nil)
			if err != nil {
				t.Error(err)
				return
			}
			answer, err := hc.Do(r)
			if err != nil {
				t.Errorf("one of many at once: %v", err)
				return
			}
			answer.Body.Close()
			hc.CloseIdleConnections()
		})
	}
	all.Wait()
}

// A member has as many connections as it may: one that rests makes way, and where all are busy a
// call on one more is refused.
func TestConnectionsOfOneMember(t *testing.T) {
	const may = 4
	f := servertest.Start(t, servertest.Options{Bounds: server.Bounds{PerCaller: may, Stall: 5 * time.Minute}})
	rome, milan := f.Join("rome"), f.Join("milan")
	status := func(c net.Conn) int {
		t.Helper()
		ask(t, c, "GET "+prefix+"/clusters HTTP/1.1\r\nHost: broker\r\n\r\n")
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode
	}
	var first net.Conn
	for i := range 3 * may {
		c := f.Dial(rome.HTTP)
		if got := status(c); got != http.StatusOK {
			t.Errorf("connection %d: %d", i, got)
		}
		if first == nil {
			first = c
		}
	}
	ends(t, first, time.Minute)
	for range may {
		ask(t, f.Dial(rome.HTTP), "POST "+prefix+"/evaluations HTTP/1.1\r\nHost: broker\r\n"+
			"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
	}
	// Until its call has begun, a connection is idle, and the next one takes its place.
	for deadline := time.Now().Add(time.Minute); server.OpenCalls.Load() < may; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d calls have begun", server.OpenCalls.Load(), may)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if status(f.Dial(rome.HTTP)) == http.StatusTooManyRequests {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it has as many as it likes")
		}
	}
	if _, err := milan.Clusters(t.Context()); err != nil {
		t.Errorf("another member: %v", err)
	}
}

// Each reason for which something is refused or ended is in the table of bounds of docs/broker.md,
// and no other.
func TestEachBoundIsDocumented(t *testing.T) {
	docs, err := os.ReadFile("../../docs/broker.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, text := range strings.Split(string(docs), "| what | bound | beyond it | `reason` |")[1:] {
		table, _, _ := strings.Cut(text, "\n\n")
		for line := range strings.Lines(table) {
			cells := strings.Split(strings.TrimSpace(line), "|")
			for _, found := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[max(0, len(cells)-2)], -1) {
				documented[found[1]] = true
			}
		}
	}
	counted := map[string]bool{}
	registry := prometheus.NewRegistry()
	registry.MustRegister(server.Metrics()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "reason" {
					counted[label.GetValue()] = true
				}
			}
		}
	}
	if !maps.Equal(counted, documented) {
		t.Errorf("the code counts\n  %q\nand docs/broker.md has\n  %q",
			slices.Sorted(maps.Keys(counted)), slices.Sorted(maps.Keys(documented)))
	}
}
