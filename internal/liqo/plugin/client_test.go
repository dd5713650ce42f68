package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/plugin"
	"github.com/bourse-dev/bourse/internal/liqo/plugin/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t testing.TB, address string) *plugin.Client {
	t.Helper()
	c, err := plugin.New(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// said is an answer as a reader of quantities would write it.
func said(r api.Resources) map[string]string {
	out := map[string]string{}
	for name, q := range r {
		out[string(name)] = q.String()
	}
	return out
}

// Whatever dialect a plugin speaks, the client reads what it allows, tells it who is gone, and hears of changes.
func TestDialects(t *testing.T) {
	for _, dialect := range plugintest.Dialects {
		t.Run(string(dialect), func(t *testing.T) {
			s := plugintest.Start(t, dialect, "")
			c := dial(t, s.Address)
			for name, c2 := range map[string]struct{ says, means map[string]string }{
				"fixed":    {map[string]string{"cpu": "2000m", "memory": "2G", "pods": "10"}, map[string]string{"cpu": "2", "memory": "2G", "pods": "10"}},
				"a GPU":    {map[string]string{"nvidia.com/gpu": "1", "cpu": "1500m"}, map[string]string{"nvidia.com/gpu": "1", "cpu": "1500m"}},
				"quoted":   {map[string]string{"memory": `"1Gi"`}, map[string]string{"memory": "1Gi"}},
				"negative": {map[string]string{"cpu": "-3", "memory": "1Gi"}, map[string]string{"cpu": "0", "memory": "1Gi"}},
				"none":     {map[string]string{"cpu": ""}, map[string]string{"cpu": "0"}},
				"nothing":  {map[string]string{}, map[string]string{}},
				"endless":  {map[string]string{"memory": "99Ei"}, map[string]string{"memory": "1Pi"}},
			} {
				s.Allow("rome", c2.says)
				got, err := c.ReadResources(t.Context(), "rome")
				if err != nil || fmt.Sprint(said(got)) != fmt.Sprint(c2.means) {
					t.Errorf("%s: %v, %v, want %v", name, said(got), err, c2.means)
				}
			}
			if _, err := c.ReadResources(t.Context(), "oslo"); !errors.Is(err, plugin.ErrRefused) || !strings.Contains(err.Error(), "no contract with oslo") {
				t.Errorf("of one that it does not know: %v", err)
			}
			if err := c.RemoveCluster(t.Context(), "rome"); err != nil || !slices.Equal(s.Removed(), []string{"rome"}) {
				t.Errorf("removed %q, %v", s.Removed(), err)
			}
			heard, ended := make(chan string, 16), make(chan error, 1)
			go func() { ended <- c.Subscribe(t.Context(), func() {}, func(consumer string) { heard <- consumer }) }()
			for s.Subscribers() == 0 {
				time.Sleep(time.Millisecond)
			}
			s.Allow("milan", nil)
			want := "milan"
			if dialect == plugintest.V05 {
				want = "" // all: it does not say whom it is about
			}
			if got := <-heard; got != want {
				t.Errorf("heard of %q, want %q", got, want)
			}
			s.Stop()
			if err := <-ended; err == nil {
				t.Error("the subscription has ended without an error")
			}
		})
	}
}

// A plugin that is away fails at once, and is asked again without further ado when it is back; one that is silent does not hold anybody up
// for long.
func TestAway(t *testing.T) {
	s := plugintest.Start(t, plugintest.V09, "")
	c := dial(t, s.Address)
	s.Allow("rome", map[string]string{"cpu": "1"})
	if _, err := c.ReadResources(t.Context(), "rome"); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	begun := time.Now()
	if _, err := c.ReadResources(t.Context(), "rome"); err == nil || errors.Is(err, plugin.ErrRefused) {
		t.Errorf("while it is away: %v", err)
	}
	if err := c.RemoveCluster(t.Context(), "rome"); err == nil {
		t.Error("it was told of rome while it was away")
	}
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("it took %s to find out that it is away", took)
	}
	back := plugintest.Start(t, plugintest.V09, s.Address)
	back.Allow("rome", map[string]string{"cpu": "2"})
	for begun = time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if got, err := c.ReadResources(t.Context(), "rome"); err == nil {
			if cpu := got[corev1.ResourceCPU]; cpu.Value() != 2 {
				t.Errorf("it allows %v", got)
			}
			break
		} else if time.Since(begun) > 10*time.Second {
			t.Fatal(err)
		}
	}
	back.Deafen()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := c.ReadResources(ctx, "rome"); err == nil || ctx.Err() == nil {
		t.Errorf("of one that says nothing: %v", err)
	}
}

// What is no plugin is said to be none, and a subscription that is not there is a plugin without news.
func TestNoPlugin(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, served := grpc.NewServer(), make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() { server.Stop(); <-served }()
	c := dial(t, l.Addr().String())
	if _, err := c.ReadResources(t.Context(), "rome"); err == nil || errors.Is(err, plugin.ErrRefused) {
		t.Errorf("another service: %v", err)
	}
	if err := c.Subscribe(t.Context(), func() {}, func(string) {}); !errors.Is(err, plugin.ErrNoNews) {
		t.Errorf("its news: %v", err)
	}
}

// An answer of which some part makes no sense is none.
func TestHostileAnswers(t *testing.T) {
	entry := func(name, value string) []byte {
		e := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
		e = protowire.AppendString(protowire.AppendTag(e, 2, protowire.BytesType), value)
		return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), e)
	}
	many := func(n int) (all []byte) {
		for i := range n {
			all = append(all, entry(fmt.Sprintf("example.com/r-%d", i), "1")...)
		}
		return all
	}
	s := plugintest.Start(t, plugintest.V06, "")
	c := dial(t, s.Address)
	for name, raw := range map[string][]byte{
		"words":               entry("cpu", "as much as you like"),
		"a long exponent":     entry("cpu", "1e999999999"),
		"an unclosed quote":   entry("cpu", `"1Gi`),
		"other quotes":        entry("cpu", "`1Gi`"),
		"no number":           entry("cpu", "Gi"),
		"no name":             entry("", "1"),
		"no resource":         entry("../../etc", "1"),
		"a name that is long": entry(strings.Repeat("x", 400), "1"),
		"thousands of names":  many(2000),
		"65 names":            many(65),
		"a large message":     many(5000),
		"half a message":      entry("cpu", "1")[:6],
		"no message":          []byte("\xff\xff\xff"),
		"a broken quantity":   entry("cpu", "\n\x7f1"),
	} {
		s.Answer(raw)
		if got, err := c.ReadResources(t.Context(), "rome"); err == nil || len(got) > 0 || len(err.Error()) > 500 {
			t.Errorf("%s: %v, %v", name, said(got), err)
		}
	}
	s.Answer(slices.Concat(many(64), entry("example.com/r-7", "5"), protowire.AppendVarint(protowire.AppendTag(nil, 9, protowire.VarintType), 7)))
	got, err := c.ReadResources(t.Context(), "rome")
	if last := got["example.com/r-7"]; err != nil || len(got) != 64 || last.Value() != 5 {
		t.Errorf("64 names, one of them twice, and a field that nobody knows: %d, %v", len(got), err)
	}
}

// Whatever answers instead of a plugin, it is an error, soon and in few words, and nothing is followed to another place.
func TestHostileServers(t *testing.T) {
	grpcs := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
	}
	good := []byte{0, 0, 0, 0, 0}
	elsewhere := make(chan struct{}, 1)
	for name, answers := range map[string]http.HandlerFunc{
		"a web page": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>hello") },
		"not found":  http.NotFound,
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"nothing":        func(w http.ResponseWriter, _ *http.Request) { grpcs(w) },
		"no status":      func(w http.ResponseWriter, _ *http.Request) { grpcs(w); _, _ = w.Write(good) },
		"no answer":      func(w http.ResponseWriter, _ *http.Request) { grpcs(w); w.Header().Set("Grpc-Status", "0") },
		"half a head":    func(w http.ResponseWriter, _ *http.Request) { grpcs(w); _, _ = w.Write(good[:3]) },
		"half a message": func(w http.ResponseWriter, _ *http.Request) { grpcs(w); _, _ = w.Write([]byte{0, 0, 0, 0, 9, 1}) },
		"a huge message": func(w http.ResponseWriter, _ *http.Request) {
			grpcs(w)
			_, _ = w.Write([]byte{0, 255, 255, 255, 255, 1})
		},
		"a compressed one": func(w http.ResponseWriter, _ *http.Request) { grpcs(w); _, _ = w.Write([]byte{1, 0, 0, 0, 0}) },
		"two answers":      func(w http.ResponseWriter, _ *http.Request) { grpcs(w); _, _ = w.Write(slices.Concat(good, good)) },
		"another status": func(w http.ResponseWriter, _ *http.Request) {
			grpcs(w)
			_, _ = w.Write(good)
			w.Header().Set("Grpc-Status", "zero")
		},
		"a long excuse": func(w http.ResponseWriter, _ *http.Request) {
			grpcs(w)
			w.Header().Set("Grpc-Status", "13")
			w.Header().Set("Grpc-Message", strings.Repeat("%0a", 4000))
		},
		"a very long excuse": func(w http.ResponseWriter, _ *http.Request) {
			grpcs(w)
			w.Header().Set("Grpc-Message", strings.Repeat("x", 1<<20))
		},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("/resource_reader/", answers)
			mux.HandleFunc("/elsewhere", func(http.ResponseWriter, *http.Request) { elsewhere <- struct{}{} })
			s := httptest.NewUnstartedServer(mux)
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			s.Start()
			defer s.Close()
			c := dial(t, s.Listener.Addr().String())
			defer c.Close()
			begun := time.Now()
			got, err := c.ReadResources(t.Context(), "rome")
			if err == nil || errors.Is(err, plugin.ErrRefused) || len(got) > 0 || len(err.Error()) > 1000 || strings.Contains(err.Error(), "\n") || time.Since(begun) > 4*time.Second {
				t.Errorf("%v, after %s: %v", said(got), time.Since(begun), err)
			}
			if err := c.Subscribe(t.Context(), func() {}, func(string) {}); err == nil {
				t.Error("a subscription to it ended well")
			}
			if len(elsewhere) > 0 {
				t.Error("it went elsewhere")
			}
		})
	}
}

func TestCheck(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:6001": true, "[::1]:6001": true, "localhost:6001": true, "liqo-fixed-resources-plugin.liqo:6001": true,
		"": false, "127.0.0.1": false, ":6001": false, "127.0.0.1:0": false, "127.0.0.1:70000": false, "127.0.0.1:http": false,
		"http://127.0.0.1:6001": false, "unix:///run/plugin.sock": false, "dns:///x:1": false, "a/b:1": false, "user@host:1": false, "a b:1": false,
		strings.Repeat("a", 300) + ":1": false,
	} {
		if err := plugin.Check("resourcePlugin", address); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
}
