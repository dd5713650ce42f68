package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/identity/pinned"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// asks is a client of the agent's questions, as a person, for namespaces or, without any, for the cluster.
func asks(t *testing.T, m *federation.Member, person string, namespaces ...string) *client.Client {
	t.Helper()
	config := m.Cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: person}
	c, a, err := cluster.NewAsker(config, namespaces...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := a.Close(ctx); err != nil {
			t.Errorf("the sessions of %s: %v", person, err)
		}
	})
	return c
}

// Each question answers those whose role says so: nobody, a requester, a viewer, a provider's admin. No session acts.
func TestQuestionsByRole(t *testing.T) {
	w := start(t)
	for _, namespace := range []string{"asks", "other"} {
		makeNamespace(t, w.rome, namespace)
	}
	bind(t, w.rome, "ada", "bourse-requester", "asks")
	bind(t, w.rome, "vito", "bourse-viewer", "")
	bind(t, w.rome, "paola", "bourse-provider-admin", "")
	own := ask(t, w.rome, "asks", "own", api.Request{Resources: cpu("1"), Target: "milan"})
	others := ask(t, w.rome, "other", "others", api.Request{Resources: cpu("1"), Target: "milan"})
	ids := map[string]string{}
	for name, r := range map[string]*api.ResourceRequest{"own": own, "others": others} {
		becomes(t, w.rome, r, api.Reserved)
		ids[name] = r.Status.Reservation
	}
	ada, vito, paola := asks(t, w.rome, "ada", "asks"), asks(t, w.rome, "vito"), asks(t, w.rome, "paola")
	eventually(t, "the roles are known", func(ctx context.Context) (err error) {
		for _, c := range []*client.Client{ada, vito, paola} {
			if _, err = c.Status(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	nobody, foreign, whole := asks(t, w.rome, "nobody", "asks"), asks(t, w.rome, "ada", "other"), asks(t, w.rome, "ada")
	request := api.RequestCreate{Namespace: "asks", Request: api.Request{Resources: cpu("1")}}
	questions := map[string]struct { // by its row in the generated table
		ask       func(context.Context, *client.Client) error
		requester api.Code // the others may ask
	}{
		"GET /status":   {func(ctx context.Context, c *client.Client) error { _, err := c.Status(ctx); return err }, ""},
		"GET /clusters": {func(ctx context.Context, c *client.Client) error { _, err := c.Clusters(ctx); return err }, ""},
		"GET /clusters/{cluster}": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Cluster(ctx, "milan")
			return err
		}, ""},
		"GET /catalog": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Catalog(ctx, api.CatalogQuery{})
			return err
		}, ""},
		"GET /catalog/{cluster}/{name}": {func(ctx context.Context, c *client.Client) error {
			if _, err := c.Offer(ctx, "milan", "unknown"); api.CodeOf(err) != api.CodeNotFound {
				return err
			}
			return nil
		}, ""},
		"POST /evaluations": {func(ctx context.Context, c *client.Client) error { _, err := c.DryRun(ctx, request); return err }, ""},
		"GET /reservations": {func(ctx context.Context, c *client.Client) error { _, err := c.Reservations(ctx); return err }, ""},
		"GET /reservations/{id}": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Reservation(ctx, ids["own"])
			return err
		}, ""},
		"GET /reservations/{id} of others": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Reservation(ctx, ids["others"])
			return err
		}, api.CodeNotFound},
		"GET /requests/{namespace}/{name}/impact": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Impact(ctx, "asks", "own")
			return err
		}, ""},
		"GET /requests/{namespace}/{name}/impact of others": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Impact(ctx, "other", "others")
			return err
		}, api.CodeNotFound},
		"GET /diagnosis": {func(ctx context.Context, c *client.Client) error { _, err := c.Diagnose(ctx); return err }, api.CodeForbidden},
		"GET /peers/{cluster}/audit": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Audit(ctx, "milan")
			return err
		}, api.CodeForbidden},
		"GET /brokers": {func(ctx context.Context, c *client.Client) error { _, err := c.Brokers(ctx); return err }, api.CodeForbidden},
		"POST /virtual-node-pools/{name}/plan": {func(ctx context.Context, c *client.Client) error {
			_, err := c.PlanVirtualNodePool(ctx, "p", api.VirtualNodePoolSpec{Namespaces: []string{"asks"}, Max: cpu("1")})
			return err
		}, api.CodeForbidden},
		"POST /sharing/preview": {func(ctx context.Context, c *client.Client) error {
			_, err := c.PreviewSharing(ctx, api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}})
			return err
		}, api.CodeForbidden},
	}
	table, err := os.ReadFile("../../docs/reference/questions.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(string(table), -1) {
		if _, asked := questions[row[1]]; !asked {
			t.Errorf("nobody here asks %s", row[1])
		}
	}
	for name, q := range questions {
		if err := q.ask(t.Context(), ada); (err == nil) != (q.requester == "") || err != nil && api.CodeOf(err) != q.requester {
			t.Errorf("%s of a requester: %v, want %q", name, err, q.requester)
		}
		for who, c := range map[string]*client.Client{"a viewer": vito, "an admin": paola} {
			if err := q.ask(t.Context(), c); err != nil {
				t.Errorf("%s of %s: %v", name, who, err)
			}
		}
		for who, c := range map[string]*client.Client{"nobody": nobody, "a foreign namespace": foreign, "the whole": whole} {
			if err := q.ask(t.Context(), c); api.CodeOf(err) != api.CodeForbidden {
				t.Errorf("%s of %s: %v", name, who, err)
			}
		}
	}
	for who, c := range map[string]*client.Client{"a requester": ada, "a viewer": vito, "an admin": paola} {
		if err := c.EndUnknown(t.Context(), ids["own"]); api.CodeOf(err) != api.CodeNotFound {
			t.Errorf("%s acts by a session: %v", who, err)
		}
	}
	if seen, err := ada.Reservations(t.Context()); err != nil || len(seen) != 1 || seen[0].Payload.Object != "asks/own" {
		t.Errorf("a requester sees %+v, %v", seen, err)
	}
	for _, r := range []*api.ResourceRequest{own, others} {
		release(t, w.rome, r)
	}
}

// Of a thousand sessions of one namespace a hundred stay, and another namespace is answered meanwhile.
func TestAThousandSessions(t *testing.T) {
	w := start(t)
	makeNamespace(t, w.milan, "many")
	makeNamespace(t, w.milan, "few")
	done := make(chan error, 1)
	go func() {
		var creates errgroup.Group
		creates.SetLimit(8)
		for i := range 1000 {
			creates.Go(func() error {
				return w.milan.Objects.Create(t.Context(), &api.Session{
					ObjectMeta: metav1.ObjectMeta{Namespace: "many", Name: fmt.Sprintf("s%04d", i)},
					Spec:       api.SessionSpec{Key: strings.Repeat("0", 60) + fmt.Sprintf("%04x", i)}})
			})
		}
		done <- creates.Wait()
	}()
	slowest := time.Duration(0)
	for asked := 0; ; asked++ {
		c, a, err := cluster.NewAsker(w.milan.Cluster.Config(), "few")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if _, err := c.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(begin))
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("of %d sessions beside 1,000 the slowest took %s from its creation to its first answer", asked+1, slowest)
			if slowest > 5*time.Second {
				t.Errorf("it may take 5 s")
			}
		default:
			continue
		}
		break
	}
	eventually(t, "a hundred sessions are left", func(ctx context.Context) error {
		var all api.SessionList
		if err := w.milan.Objects.List(ctx, &all, kube.InNamespace("many")); err != nil {
			return err
		}
		if len(all.Items) > 100 {
			return fmt.Errorf("there are %d", len(all.Items))
		}
		return nil
	})
	if err := w.milan.Objects.DeleteAllOf(t.Context(), &api.Session{}, kube.InNamespace("many")); err != nil {
		t.Fatal(err)
	}
}

// useSessions has an agent answer a session, and end it because another process answered it.
func useSessions(t *testing.T, m *federation.Member) {
	t.Helper()
	key, err := pinned.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	spec := api.SessionSpec{Key: key.Hash()}
	meta := metav1.ObjectMeta{Namespace: "default", Name: "rights"}
	for _, s := range []kube.Object{&api.Session{ObjectMeta: meta, Spec: spec},
		&api.ClusterSession{ObjectMeta: metav1.ObjectMeta{Name: "rights"}, Spec: spec}} {
		if err := m.Objects.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		status := func() *api.SessionStatus {
			if whole, ok := s.(*api.ClusterSession); ok {
				return &whole.Status
			}
			return &s.(*api.Session).Status
		}
		eventually(t, "the agent answers", func(ctx context.Context) error {
			if err := m.Objects.Get(ctx, kube.ObjectKeyFromObject(s), s); err != nil || status().ServerKey != "" {
				return err
			}
			return fmt.Errorf("%s is not answered", s.GetName())
		})
		status().ServerKey = strings.Repeat("0", 64)
		if err := m.Objects.Status().Update(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the agent ends it", func(ctx context.Context) error {
			if err := m.Objects.Get(ctx, kube.ObjectKeyFromObject(s), s); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is still there: %w", err)
			}
			return nil
		})
	}
}
