package federation_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/identity/join"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
	"github.com/bourse-dev/bourse/internal/trust"
)

// impostor is a broker that stands between its members. It is a real broker, which knows each member by a key of the
// impostor. Before it, with a certificate of the same CA, is a proxy that the agents call. The proxy passes everything
// on, and replaces all signatures. So each agent reads its own documents with its own signature, and all others with
// the impostor's.
type impostor struct {
	t         *testing.T
	url       string // for the agents
	broker    *federation.Federation
	authority *tlsid.Authority
	poses     map[string]*pose // by cluster
	readers   []string         // the clusters, and the broker under an empty name

	mu    sync.Mutex
	real  map[string]clusterkey.PublicKey // the key that a cluster has
	said  []*said                         // oldest first
	known map[string]*said                // by each of its versions
}

// pose is the impostor as a member: as the agent before the broker, and with a key of its own.
type pose struct {
	*transporttest.Party
	*client.Client
	forward httputil.ReverseProxy
}

// said is a signed document, as each reader is to see it.
type said struct {
	author, kind string
	versions     map[string]string
}

// impose starts an impostor with the CA that is in a broker's folder.
func impose(t *testing.T, ca string, members ...string) *impostor {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "broker", "ca"), os.DirFS(ca)); err != nil {
		t.Fatal(err)
	}
	i := &impostor{
		t: t, poses: map[string]*pose{}, readers: append(members, ""),
		real: map[string]clusterkey.PublicKey{}, known: map[string]*said{},
	}
	i.broker = must(federation.Start(context.Background(), dir, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(func() {
		if err := i.broker.Stop(); err != nil {
			t.Error(err)
		}
	})
	i.authority = must(tlsid.Open(filepath.Join(dir, "broker", "ca"), []string{"127.0.0.1"}, time.Now))(t)
	for _, name := range members {
		i.poses[name] = i.join(name)
	}
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	i.url = "https://" + listener.Addr().String()
	s := httptest.Server{Listener: tls.NewListener(listener, i.authority.ServerConfig()), Config: &http.Server{Handler: i}}
	s.Start()
	t.Cleanup(s.Close)
	return i
}

// join makes the impostor a member of the broker in a cluster's name.
func (i *impostor) join(name string) *pose {
	i.t.Helper()
	p := &pose{Party: transporttest.NewParty(i.t, name)}
	token := must(join.ParseToken(must(i.broker.Operator.CreateToken(i.t.Context(), name, time.Hour))(i.t).Token))(i.t)
	tlsKey := must(tlsid.NewKey())(i.t)
	submission := must(join.Submit(token, p.Key, join.Request{
		Protocol: api.Protocol, Cluster: name, CSR: must(tlsid.NewCSR(tlsKey))(i.t), Time: time.Now(),
	}))(i.t)
	stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: tlsid.JoinConfig("127.0.0.1",
		token.Pin, time.Now), DisableKeepAlives: true}}
	joined := must(client.New(i.broker.URL, stranger).Join(i.t.Context(), submission))(i.t)
	certificate := must(tlsid.NewClient(tlsKey, []byte(joined.Certificate), []byte(joined.CA), time.Now))(i.t)

	upstream := &http.Transport{TLSClientConfig: certificate.Config()}
	i.t.Cleanup(upstream.CloseIdleConnections)
	p.Client = client.New(i.broker.URL, &http.Client{Transport: upstream})
	to := must(url.Parse(i.broker.URL))(i.t)
	p.forward = httputil.ReverseProxy{
		Transport: upstream, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ModifyResponse: func(r *http.Response) error {
			r.Body = &reading{r.Body, bufio.NewReader(r.Body), nil,
				func(line []byte) []byte { return i.translate(line, "", name) }}
			return nil
		},
	}
	return p
}

// reading is an answer, translated line by line as it comes: an answer is one line, a watch has no last one.
type reading struct {
	io.Closer
	lines     *bufio.Reader
	line      []byte // what is left of it
	translate func([]byte) []byte
}

func (r *reading) Read(p []byte) (n int, err error) {
	if len(r.line) == 0 {
		r.line, err = r.lines.ReadBytes('\n')
		r.line = r.translate(r.line)
	}
	n = copy(p, r.line)
	r.line = r.line[n:]
	if n > 0 {
		err = nil // it comes again
	}
	return n, err
}

// ServeHTTP is what an agent takes for its broker.
func (i *impostor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	peer, err := i.authority.Peer(r.TLS)
	if err != nil || i.poses[peer.Name] == nil {
		http.Error(w, "who?", http.StatusForbidden)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	body = i.translate(body, peer.Name, "")
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	i.poses[peer.Name].forward.ServeHTTP(w, r)
}

// document is what any signed document looks like.
var document = regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`)

// translate puts in the place of each signed document in a text the version that is for its reader.
// What was not seen before is the writer's. All versions of a document are of the same length, and
// so are the texts.
func (i *impostor) translate(text []byte, writer, reader string) []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	return document.ReplaceAllFunc(text, func(d []byte) []byte {
		if i.known[string(d)] == nil {
			if err := i.learn(string(d), writer, writer); err != nil {
				i.t.Errorf("%q says %q: %v", writer, d, err)
				panic(http.ErrAbortHandler)
			}
		}
		return []byte(i.known[string(d)].versions[reader])
	})
}

// learn makes the other versions of a document for which one reader has the original.
func (i *impostor) learn(document, author, reader string) error {
	header, err := clusterkey.Peek(document)
	if err != nil {
		return err
	}
	if header.Kind == api.DocumentCard {
		if _, i.real[author], err = trust.Open(document); err != nil {
			return err
		}
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(document, ".")[1])
	if err != nil {
		return err
	}
	s := &said{author, header.Kind, map[string]string{reader: document}}
	for _, to := range i.readers {
		if to != reader {
			s.versions[to], err = i.poses[author].Key.Sign(header.Kind, json.RawMessage(i.view(to).Replace(string(payload))))
		}
		if err != nil {
			return err
		}
		i.known[s.versions[to]] = s
	}
	i.said = append(i.said, s)
	return nil
}

// view makes what a document says of keys, and of documents before it, what a reader knows of them:
// of itself its real key, of others the impostor's.
func (i *impostor) view(reader string) *strings.Replacer {
	var swap []string
	for cluster, real := range i.real {
		before, now := real, i.poses[cluster].Key.Public()
		if cluster == reader {
			before, now = now, before
		}
		swap = append(swap, before.String(), now.String(), before.Fingerprint().String(), now.Fingerprint().String())
	}
	for _, s := range i.said {
		for _, version := range s.versions {
			swap = append(swap, clusterkey.Digest(version).String(), clusterkey.Digest(s.versions[reader]).String())
		}
	}
	return strings.NewReplacer(swap...)
}

// signed are the documents of a kind that a cluster signed, or the impostor in its name.
func (i *impostor) signed(author, kind string) (all []*said) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, s := range i.said {
		if s.author == author && s.kind == kind {
			all = append(all, s)
		}
	}
	return all
}

// borrows makes up a request and an assignment of rome's, which milan is then asked to accept, and
// returns what came of it.
func (i *impostor) borrows() api.Reservation {
	i.t.Helper()
	rome := i.poses["rome"]
	held := must(rome.Reserve(i.t.Context(), "made up", transporttest.Request("1")))(i.t)
	assignment := rome.Assign(held)
	i.mu.Lock()
	err := i.learn(assignment, "rome", "")
	i.mu.Unlock()
	if err != nil {
		i.t.Fatal(err)
	}
	must(rome.Confirm(i.t.Context(), held.ID, assignment))(i.t)
	eventually(i.t, "milan answers", func() bool {
		held = must(rome.Reservation(i.t.Context(), held.ID))(i.t)
		return held.Payload.State != api.Held
	})
	return held.Payload
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// must turns an error of a preparation into the end of the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
