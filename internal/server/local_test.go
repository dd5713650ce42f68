package server_test

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// house is the cluster behind an agent's listener: it has one request, "default/r", with reservation r-1.
type house struct {
	transporttest.Broker
	asked        string
	unread       error // of the clusters that are passed over
	reservations []transport.Reservation
}

func (h *house) Reservations(context.Context) ([]transport.Reservation, error) {
	return h.reservations, h.found("reservations")
}

func (h *house) Reservation(_ context.Context, id string) (transport.Reservation, error) {
	for _, r := range h.reservations {
		if r.ID == id {
			return r, nil
		}
	}
	return transport.Reservation{}, api.Errorf(api.CodeNotFound, "no %s", id).Fix("see the others")
}

func (h *house) found(what string) error {
	if h.asked = what; strings.HasSuffix(what, "none") {
		return api.Errorf(api.CodeNotFound, "no %s here", what)
	}
	return nil
}

func (h *house) Status(context.Context) (api.AgentStatus, error) {
	return api.AgentStatus{Cluster: "rome"}, h.found("status")
}

func (h *house) Preview(ctx context.Context, broker transport.Broker, q api.DryRun) (api.Evaluation, error) {
	q.Request.StickTo = []string{"milan"}
	if err := h.found("preview " + q.Name); err != nil {
		return api.Evaluation{}, err
	}
	return broker.Fit(ctx, api.EvaluationCreate{Request: q.Request})
}

func (h *house) PassedOver(context.Context, []string) (map[string]error, error) {
	return map[string]error{"paris": api.Errorf(api.CodeInUse, "paris serves a VirtualNodePool")}, h.unread
}

func (h *house) Impact(_ context.Context, namespace, name string) (api.Impact, error) {
	return api.Impact{Volumes: &api.Volumes{Count: 2, Claims: []string{namespace + "/a", "shop/b"}}}, h.found("impact " + name)
}

func (h *house) Brokers(context.Context) ([]api.Envelope[api.KnownBroker], error) {
	return []api.Envelope[api.KnownBroker]{{ID: api.MainBroker}}, h.found("brokers")
}

func (h *house) Diagnose(context.Context) api.Diagnosis {
	h.asked = "diagnose"
	return api.Diagnosis{Problems: []api.Problem{{Code: "LiqoMissing"}}}
}

func (h *house) Audit(_ context.Context, cluster string) (*api.Audit, error) {
	return &api.Audit{Cluster: cluster}, h.found("audit " + cluster)
}

func (h *house) PlanVirtualNodePool(_ context.Context, name string,
	spec api.VirtualNodePoolSpec) (api.VirtualNodePoolStatus, error) {
	return api.VirtualNodePoolStatus{Why: spec.Namespaces[0]}, h.found("plan " + name)
}

func (h *house) PreviewSharing(_ context.Context, spec api.Sharing,
	others []api.Envelope[api.Cluster]) (out api.SharingPreview, err error) {
	for _, other := range others {
		out.LoseSight = append(out.LoseSight, other.ID)
	}
	return out, h.found("preview sharing " + spec.Allow)
}

func (h *house) EndUnknown(_ context.Context, id string) error { return h.found("end " + id) }

func (h *house) RotateKey(_ context.Context, r api.KeyRotation) (api.KeyRotated, error) {
	return api.KeyRotated{Fingerprint: r.From + "+1"}, h.found("rotate " + r.From)
}

// onSocket serves a handler on a socket that only its owner can open, until the test ends.
func onSocket(t *testing.T, h http.Handler) *client.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "d", "s.sock")
	l, err := server.ListenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, l, h) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != fs.ModeSocket {
		t.Errorf("the socket is %s, %v", info.Mode(), err)
	}
	if _, err := server.ListenSocket(path); err == nil {
		t.Error("a second process takes the socket of the first")
	}
	return client.New("unix://"+path, nil)
}

// An agent's listener hands each call to the cluster or to the broker, and says what they say.
func TestLocal(t *testing.T) {
	ctx, h := t.Context(), &house{}
	c := onSocket(t, server.Local(h, h, 1000, servertest.Silent()).For(server.LocalUser))
	for name, call := range map[string]func() (string, error){
		"status":   func() (string, error) { s, err := c.Status(ctx); return s.Cluster, err },
		"end":      func() (string, error) { return "", c.EndUnknown(ctx, "r-1") },
		"diagnose": func() (string, error) { d, err := c.Diagnose(ctx); return d.Problems[0].Code, err },
		"audit":    func() (string, error) { a, err := c.Audit(ctx, "milan"); return a.Cluster, err },
		"plan burst": func() (string, error) {
			s, err := c.PlanVirtualNodePool(ctx, "burst", api.VirtualNodePoolSpec{
				Namespaces: []string{"team"}, Max: transporttest.CPU("3")})
			return s.Why, err
		},
		"rotate": func() (string, error) { r, err := c.RotateKey(ctx, "SHA256:k"); return r.Fingerprint, err },
	} {
		want := map[string]string{"status": "rome", "end": "",
			"plan burst": "team", "audit": "milan", "diagnose": "LiqoMissing", "rotate": "SHA256:k+1"}
		got, err := call()
		if err != nil || got != want[name] {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if !strings.HasPrefix(h.asked, name) {
			t.Errorf("%s: the cluster was asked for %q", name, h.asked)
		}
	}
	if err := c.EndUnknown(ctx, "none"); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("unknown reservation: %v", err)
	}
	if _, err := c.Evaluate(ctx, transporttest.Request("1")); api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("the broker is away: %v", err)
	}
	if _, err := c.DryRun(ctx, api.RequestCreate{Name: "r",
		Request: transporttest.Request("1")}); api.CodeOf(err) != api.CodeUnavailable || h.asked != "preview r" {
		t.Errorf("a dry run asks the cluster for %q, and then the broker: %v", h.asked, err)
	}
	h.OnCluster = func(id string) (api.Envelope[api.Cluster], error) { return api.Envelope[api.Cluster]{ID: id}, nil }
	for id, want := range map[string]string{"paris": "InUse: paris serves a VirtualNodePool", "milan": ""} {
		if cluster, err := c.Cluster(ctx, id); err != nil || cluster.Payload.PassedOver != want {
			t.Errorf("%s is passed over: %q, %v", id, cluster.Payload.PassedOver, err)
		}
	}
	h.unread = api.Errorf(api.CodeUnavailable, "the Ledger is away")
	if cluster, err := c.Cluster(ctx, "milan"); err != nil || cluster.Payload.PassedOverError != h.unread.Error() {
		t.Errorf("without the clusters that are passed over: %+v, %v", cluster, err)
	}
	for name, err := range map[string]error{
		"what only a broker has":  errOf(c.Members(ctx)),
		"a name that is too long": errOf(c.Impact(ctx, strings.Repeat("n", 100), "r")),
	} {
		if code := api.CodeOf(err); code != api.CodeNotFound && code != api.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func errOf[T any](_ T, err error) error { return err }

// A caller of the broker's own socket is an operator, and no member.
func TestOperatorsOnTheSocket(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	f.Join("rome")
	c := onSocket(t, f.Server.Operators())
	if members, err := c.Members(t.Context()); err != nil || len(members) != 1 {
		t.Errorf("%d members, %v", len(members), err)
	}
	if _, err := c.Reserve(t.Context(), "key", transporttest.Request("1")); api.CodeOf(err) != api.CodeForbidden {
		t.Errorf("an operator reserves: %v", err)
	}
}

// slowBroker answers no list until it may.
type slowBroker struct {
	house
	asked chan struct{}
	may   chan struct{}
}

func (b *slowBroker) ClustersAfter(context.Context, string, int) ([]api.Envelope[api.Cluster], string, error) {
	b.asked <- struct{}{}
	<-b.may
	return nil, "", nil
}

// A whole list of a broker takes an agent much memory: few are read at the same time, and other calls go on.
func TestWholeListsOfABroker(t *testing.T) {
	b := &slowBroker{asked: make(chan struct{}, 100), may: make(chan struct{})}
	c := onSocket(t, server.Local(b, b, 1000, servertest.Silent()).For(server.LocalUser))
	const calls = 6
	answers := make(chan error, calls)
	for range calls {
		go func() { answers <- errOf(c.Clusters(t.Context())) }()
	}
	for range 2 { // two of six too many
		if err := <-answers; api.CodeOf(err) != api.CodeTooManyRequests {
			t.Errorf("it is answered with %v", err)
		}
	}
	if n := len(b.asked); n != 4 {
		t.Errorf("the broker is asked for %d lists at the same time, want 4", n)
	}
	if _, err := c.Status(t.Context()); err != nil {
		t.Errorf("another call: %v", err)
	}
	close(b.may)
	for range calls - 2 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}

// largeBroker shows many clusters, by pages alone.
type largeBroker struct {
	house
	clusters []api.Envelope[api.Cluster]
	asked    []string // after each
}

func (b *largeBroker) ClustersAfter(_ context.Context, after string,
	limit int) (page []api.Envelope[api.Cluster], next string, err error) {
	b.asked = append(b.asked, after)
	for _, c := range b.clusters {
		if c.ID <= after {
			continue
		}
		if len(page) == limit {
			return page, page[limit-1].ID, nil
		}
		page = append(page, c)
	}
	return page, "", nil
}

// Who lists the clusters has an agent hold one page of its broker's at a time.
func TestClustersAreReadByPages(t *testing.T) {
	b := &largeBroker{}
	for i := range 1234 {
		b.clusters = append(b.clusters, api.Envelope[api.Cluster]{ID: fmt.Sprintf("c%05d", i)})
	}
	c := onSocket(t, server.Local(b, b, 1000, servertest.Silent()).For(server.LocalUser))
	all, err := c.Clusters(t.Context())
	if err != nil || len(all) != 1234 || all[1233].ID != "c01233" {
		t.Errorf("%d clusters, %v", len(all), err)
	}
	if want := []string{"", "c00499", "c00999"}; !slices.Equal(b.asked, want) {
		t.Errorf("the broker was asked for what comes after %q, want %q", b.asked, want)
	}
	page, next, err := c.ClustersAfter(t.Context(), "c01000", 10)
	if err != nil || len(page) != 10 || page[0].ID != "c01001" || next != "c01010" {
		t.Errorf("a page of ten: %d, then after %q, %v", len(page), next, err)
	}
}

// silent is a cluster whose API server stands still.
type silent struct{ house }

func (*silent) Impact(ctx context.Context, _, _ string) (i api.Impact, _ error) {
	<-ctx.Done()
	return i, ctx.Err()
}

// A call of a user is answered before the client gives up, and says what is wrong.
func TestAnAgentWhoseAPIServerStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, began := &silent{}, time.Now()
		answer, call := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, api.Prefix+"/requests/default/r/impact", nil)
		server.Local(&h.Broker, h, 100, slog.New(slog.DiscardHandler)).For(server.LocalUser).
			ServeHTTP(answer, call.WithContext(t.Context()))
		if took := time.Since(began); took > 28*time.Second || answer.Code != http.StatusServiceUnavailable ||
			!strings.Contains(answer.Body.String(), "did not answer in time") {
			t.Errorf("after %s: %d %s", took, answer.Code, answer.Body)
		}
	})
}
