package robustness

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// liar is a broker or the connector of a seller that shows and answers as much as it can.
type liar struct {
	*transporttest.Party
	shown
	fake    *fake
	victim  string // the cluster whose agent asks
	join    http.Handler
	server  *httptest.Server
	address string
	much    int // how many times as much as a connector it shows

	rounds, answers atomic.Int64 // how often it has shown all, and how many calls it answered
}

// mark is where a name belongs in what is shown.
const mark = "MARK"

// shown is what a liar shows, in the parts between names: reservations and offers with many small parts, which take
// much more memory than text, and with long texts.
type shown struct{ wide, long, wideOffers, longOffers []string }

func newShown(victim, liar string) shown {
	text := strings.Repeat("d", 30<<10)
	as := strings.NewReplacer("VICTIM", victim, "LIAR", liar, "TEXT", text)
	parts := func(template string) []string { return strings.Split(as.Replace(template), mark) }
	var amounts strings.Builder
	for i := range 2_000 {
		_, _ = fmt.Fprintf(&amounts, `"%x":"1",`, i)
	}
	resources := `"resources":{` + amounts.String() + `"cpu":"1"}`
	reservation := func(state, rest string) []string {
		return parts(`{"id":"MARK","revision":1,"payload":{"state":"` + state + `","consumer":"VICTIM","provider":"LIAR",` +
			`"generation":1,` + rest + `}}`)
	}
	offer := func(spec string) []string {
		return parts(`{"cluster":"MARK","fresh":true,"offers":[{"id":"MARK/web","revision":1,"payload":{"seller":"MARK",` +
			`"name":"web","version":1,"digest":"d","document":"x","fresh":true,"plans":{},"offer":{` + spec + `}}}]}`)
	}
	return shown{
		wide: reservation("Held", resources),
		long: reservation("Reserved", `"resources":{"cpu":"1"},"assignment":"TEXT","acceptance":"TEXT",`+
			`"end":"TEXT","reclaim":"TEXT","offer":"TEXT","message":"TEXT"`),
		wideOffers: offer(`"plans":[{"name":"small",` + resources + `}]`),
		longOffers: offer(`"description":"TEXTTEXTTEXT"`),
	}
}

// newConnector starts the connector of a seller that lies. Only victim may call it.
func newConnector(t *testing.T, name, victim string, key func(string) identity.Fingerprint) *liar {
	t.Helper()
	x := &liar{Party: transporttest.NewParty(t, name), shown: newShown(victim, name), victim: victim, much: 1,
		fake: newFake(t, victim)}
	config, err := x.Key.ServerTLS(name, key)
	if err != nil {
		t.Fatal(err)
	}
	x.serve(t, config)
	return x
}

// newLyingBroker starts a broker that lies, with the CA of an honest one, which admits its members.
func newLyingBroker(t *testing.T, honest *process, victim string) *liar {
	t.Helper()
	authority, err := tlsid.Open(filepath.Join(honest.dir, "data", "ca"), []string{"127.0.0.1"}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	to := &url.URL{Scheme: "https", Host: honest.address}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	x := &liar{Party: transporttest.NewParty(t, "liar"), shown: newShown(victim, "liar"), victim: victim, much: 16,
		fake: newFake(t, victim)}
	x.join = proxy
	t.Cleanup(proxy.Transport.(*http.Transport).CloseIdleConnections)
	x.serve(t, authority.ServerConfig())
	return x
}

func (x *liar) serve(t *testing.T, config *tls.Config) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x.server = &httptest.Server{Listener: tls.NewListener(listener, config),
		Config: &http.Server{Handler: x, ErrorLog: log.New(io.Discard, "", 0)}}
	x.address = listener.Addr().String()
	x.server.Start()
	t.Cleanup(func() { x.server.CloseClientConnections(); x.server.Close() })
}

// ServeHTTP implements http.Handler.
func (x *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, api.Prefix)
	if path == "/join" && x.join != nil {
		x.join.ServeHTTP(w, r)
		return
	}
	out := bufio.NewWriterSize(w, 64<<10)
	defer out.Flush()
	name := fmt.Sprint("a-", x.answers.Add(1))
	if path == "/reservations" && r.Method == http.MethodPost {
		x.reserve(w, r, out)
		return
	}
	if strings.HasSuffix(path, "/refuse") {
		x.fake.refused.Add(1)
	}
	_, _ = io.Copy(io.Discard, r.Body)
	switch {
	case path == "/watch":
		x.show(w, r, out)
	case r.Method == http.MethodPut || r.Method == http.MethodPatch:
		w.WriteHeader(http.StatusNoContent)
	case path == "/clusters/"+x.ID: // that it is met, so that its watch is open
		card := x.Card(api.Properties{Region: "eu"})
		_ = json.NewEncoder(out).Encode(api.Envelope[api.Cluster]{ID: x.ID, Payload: api.Cluster{Card: card}})
	case r.Method == http.MethodGet && (path == "/reservations" || path == "/clusters" || path == "/catalog"):
		_, _ = out.WriteString(`{"items":[{}`)
		for i := 0; i < 4_000 && r.Context().Err() == nil; i++ {
			_ = out.WriteByte(',')
			write(out, x.long, fmt.Sprint(name, "-", i))
		}
		_, _ = out.WriteString(`]}`)
	case path == "/evaluations":
		_, _ = out.WriteString(`{"clusters":[{}` + strings.Repeat(",{}", 60_000) + `]}`)
	default:
		write(out, x.wide, strings.TrimPrefix(path, "/reservations/"))
	}
}

func write(out *bufio.Writer, template []string, name string) {
	for i, part := range template {
		if i > 0 {
			_, _ = out.WriteString(name)
		}
		_, _ = out.WriteString(part)
	}
}

// show is a watch that shows everything again and again: more than is kept of it, in each way.
func (x *liar) show(w http.ResponseWriter, r *http.Request, out *bufio.Writer) {
	line := func(kind, field string, template []string, name string) {
		_, _ = fmt.Fprintf(out, `{"type":%q,%q:`, kind, field)
		write(out, template, name)
		_, _ = out.WriteString("}\n")
	}
	for round := x.rounds.Load(); r.Context().Err() == nil; round = x.rounds.Add(1) {
		_, _ = out.WriteString(`{"type":"SNAPSHOT","complete":true}` + "\n" + `{"type":"CATALOG","complete":true}` + "\n")
		reservation, offer := x.wide, x.longOffers
		if round%2 == 1 {
			reservation, offer = x.long, x.wideOffers
		}
		for i := range 15 * x.much {
			line("RESERVATION", "object", reservation, fmt.Sprintf("r-%d-%d", round, i))
			line("SELLER", "seller", offer, fmt.Sprintf("s-%d", i))
			_, _ = fmt.Fprintf(out, `{"type":"STANDING","standing":{"cluster":"m-%d-%d","state":"Active"}}`+"\n", round, i)
			if r.Context().Err() != nil {
				return
			}
		}
		for i := range 2_500 * x.much { // more than the number that is kept
			_, _ = fmt.Fprintf(out, `{"type":"RESERVATION","object":{"id":"n-%d-%d","payload":{"state":"Held",`+
				`"consumer":%q}}}`+"\n", round, i, x.victim)
		}
		_, _ = fmt.Fprintf(out, `{"type":"HANDSHAKE","document":%q}`+"\n", x.long[1][:1000])
		_, _ = fmt.Fprintf(out, `{"type":"BOOKMARK","token":"a.%d","grown":%d}`+"\n", round+1, time.Now().UnixMilli())
		if out.Flush() != nil {
			return
		}
		w.(http.Flusher).Flush()
	}
}
