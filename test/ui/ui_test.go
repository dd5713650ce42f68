// Package ui tests the web UI in Debian's Chromium, over a federation of simulated clusters.
package ui

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/payload"
	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/ui"
	"github.com/bourse-dev/bourse/test/ui/browser"
)

// hostile is a text that another cluster may send: it must be shown, and do nothing.
const hostile = `<img src=x onerror="document.title='owned'">javascript:alert(1)`

// world is a federation with the pages of rome.
type world struct {
	*federation.Federation
	dir string
}

// shared is the federation of all tests.
var shared *world

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if browser.Find() == "" && os.Getenv("CI") == "" {
		fmt.Println("skipped: there is no Chromium (apt-get install chromium)")
		return 0
	}
	ctrl.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp("", "bourse-ui-")
	if err == nil {
		defer os.RemoveAll(dir)
		shared, err = start(dir)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = shared.Stop() }()
	return m.Run()
}

func amounts(pairs ...string) api.Resources {
	out := api.Resources{}
	for i := 0; i < len(pairs); i += 2 {
		q, err := payload.ParseQuantity(pairs[i+1])
		if err != nil {
			panic(err)
		}
		out[corev1.ResourceName(pairs[i])] = q
	}
	return out
}

// start starts rome, which borrows, and milan and paris, which lend. milan sells, and looks at each buyer of one offer.
func start(dir string) (*world, error) {
	percentage := int32(80)
	share := func() *api.Sharing {
		return &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool, Percentage: &percentage}},
			Labels: map[string]string{"tier": "gold"}}
	}
	plan := func(name string) api.Plan {
		return api.Plan{Name: name, Resources: amounts("cpu", "2", "memory", "4Gi"), Units: &api.Units{Min: 1, Max: 8}, Quantity: 8,
			Price: &api.Price{Amount: "0.08", Currency: "EUR", Period: api.PeriodHour}}
	}
	f, err := federation.Start(context.Background(), dir, slog.New(slog.DiscardHandler),
		&federation.Member{Options: sim.Options{Name: "rome", Region: "eu", Nodes: 2, CPU: 8, Memory: 32},
			Work: federation.NewWork("shop", 12, amounts("cpu", "2", "memory", "4Gi")),
			Pools: map[string]api.VirtualNodePoolSpec{"burst": {Namespaces: []string{"shop"}, Max: amounts("cpu", "24", "memory", "48Gi"),
				PendingFor: &metav1.Duration{Duration: time.Second}, Providers: api.PoolProviders{Only: []string{"paris"}}}}},
		&federation.Member{Options: sim.Options{Name: "milan", Region: "eu", Nodes: 4, CPU: 32, Memory: 128}, Connector: true, Sharing: share(),
			Offers: map[string]api.OfferSpec{
				"web":      {Type: "compute", Description: hostile, Plans: []api.Plan{plan("small")}},
				"reviewed": {ApproveWithin: &metav1.Duration{Duration: time.Hour}, Plans: []api.Plan{plan("rack")}},
			}},
		&federation.Member{Options: sim.Options{Name: "paris", Region: "eu", Nodes: 4}, Sharing: share()})
	if err != nil {
		return nil, err
	}
	w := &world{f, dir}
	for name, m := range f.Members {
		for _, namespace := range []string{api.Namespace, "team"} {
			o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
			if err := m.Objects.Create(context.Background(), o); err != nil {
				return nil, err
			}
		}
		if err := f.WriteKubeconfig(w.kubeconfig(name), m, kubeapi.User{Name: "ann", Namespace: "team"}); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *world) kubeconfig(member string) string { return filepath.Join(w.dir, member+".kubeconfig") }

// pages serves the pages of a member until the test ends, for its admin or for another user.
func (w *world) pages(t *testing.T, member, user string) *ui.Server {
	t.Helper()
	var namespaces []string
	if user != "" {
		namespaces = []string{"team"}
	}
	return w.pagesOf(t, w.config(t, member, user), member, namespaces)
}

// config is that of a member's admin or, in context, of another user.
func (w *world) config(t *testing.T, member, user string) *rest.Config {
	t.Helper()
	overrides := &clientcmd.ConfigOverrides{}
	if user != "" {
		overrides.CurrentContext = member + "-" + user
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: w.kubeconfig(member)}, overrides).ClientConfig()
	must(t, err)
	return config
}

func (w *world) pagesOf(t *testing.T, config *rest.Config, member string, namespaces []string) *ui.Server {
	t.Helper()
	l, err := ui.Listen("", 0)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	s, err := ui.Start(ctx, config, l, member, "", namespaces, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, ctx, cancel, s)
}

// operator serves the page of the broker's operator until the test ends.
func (w *world) operator(t *testing.T) *ui.Server {
	t.Helper()
	l, err := ui.Listen("", 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := ui.StartOperator(w.Operator, "broker.sock", l, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, ctx, cancel, s)
}

func serve(t *testing.T, ctx context.Context, cancel func(), s *ui.Server) *ui.Server {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

// tab logs a browser in at the pages of a server. What the browser complained about fails the test.
func tab(t *testing.T, s *ui.Server, width int) *browser.Tab {
	t.Helper()
	b := newTab(t, width)
	must(t, b.Login(s.URL(), s.Code()))
	return b
}

// newTab starts a browser.
func newTab(t *testing.T, width int) *browser.Tab {
	t.Helper()
	b, end, err := browser.Start(context.Background(), width)
	must(t, err)
	t.Cleanup(end)
	t.Cleanup(func() {
		if faults := b.Faults(); len(faults) > 0 {
			t.Errorf("the browser complains:\n%s", strings.Join(faults, "\n"))
		}
	})
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// request makes a ResourceRequest at rome, as kubectl would, and removes it after the test.
func (w *world) request(t *testing.T, name string, spec api.ResourceRequestSpec) {
	t.Helper()
	o := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Spec: spec}
	must(t, w.Members["rome"].Objects.Create(context.Background(), o))
	t.Cleanup(func() { _ = w.Members["rome"].Objects.Delete(context.Background(), o) })
}

func small() api.ResourceRequestSpec {
	return api.ResourceRequestSpec{Request: api.Request{Resources: amounts("cpu", "1", "memory", "1Gi"),
		Duration: &metav1.Duration{Duration: time.Hour}}}
}

func key(namespace, name string) kube.ObjectKey {
	return kube.ObjectKey{Namespace: namespace, Name: name}
}
