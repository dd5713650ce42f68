package federation_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/prototypes"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// prototype behaves as the README of the resource agent says: it publishes what it has, less what
// it was instructed to provide, polls in both roles, makes an instruction of what is Reserved, and
// never deletes one before its end.
type prototype struct {
	t    *testing.T
	id   string
	url  string
	http *http.Client
	cpu  int64 // cores that it has

	mu       sync.Mutex
	provides map[string]instruction
	uses     map[string]instruction
}

type instruction struct {
	ID                 string `json:"id"`
	RequesterID        string `json:"requesterID"`
	TargetClusterID    string `json:"targetClusterID"`
	RequestedResources struct {
		CPU string `json:"cpu"`
	} `json:"requestedResources"`
	Status struct {
		Phase     string    `json:"phase"`
		ExpiresAt time.Time `json:"expiresAt"`
	} `json:"status"`
}

func (p *prototype) call(ctx context.Context, method, path, body string, into any) (int, string) {
	request := must(http.NewRequestWithContext(ctx, method, p.url+path, strings.NewReader(body)))(p.t)
	request.Header.Set("Content-Type", "application/json")
	response, err := p.http.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	data, _ := io.ReadAll(response.Body)
	if response.StatusCode < 300 && into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			p.t.Errorf("%s %s: %v: %s", method, path, err, data)
		}
	}
	if bytes.Contains(data, []byte("kubeconfig")) {
		p.t.Errorf("%s %s: %s", method, path, data)
	}
	return response.StatusCode, string(data)
}

// publish reads what the broker has, for its reserved, and posts what there is.
func (p *prototype) publish(ctx context.Context) (int, string) {
	p.call(ctx, "GET", "/api/v1/advertisements/"+p.id, "", nil)
	body := fmt.Sprintf(`{"clusterID":%q,"clusterName":"cluster-advertisement","timestamp":%q,"resources":{"capacity":{"cpu":"%[3]d","memory":"64Gi"},`+
		`"allocatable":{"cpu":"%[3]d","memory":"64Gi"},"allocated":{"cpu":"0","memory":"0"},"available":{"cpu":"%[4]dm","memory":"64Gi"}}}`,
		p.id, time.Now().Format(time.RFC3339), p.cpu, p.available())
	return p.call(ctx, "POST", "/api/v1/advertisements", body, nil)
}

func (p *prototype) available() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.cpu * 1000
	for _, i := range p.provides {
		if time.Now().Before(i.Status.ExpiresAt) {
			q := resource.MustParse(i.RequestedResources.CPU)
			left -= q.MilliValue()
		}
	}
	return left
}

func (p *prototype) poll(ctx context.Context) {
	for role, kept := range map[string]map[string]instruction{"requester": p.uses, "provider": p.provides} {
		var list struct{ Reservations []instruction }
		p.call(ctx, "GET", "/api/v1/reservations?clusterID="+p.id+"&role="+role, "", &list)
		p.mu.Lock()
		for _, i := range list.Reservations {
			if _, there := kept[i.ID]; !there && i.Status.Phase == "Reserved" {
				kept[i.ID] = i
			}
		}
		p.mu.Unlock()
	}
}

func (p *prototype) has(id string, kept map[string]instruction) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, there := kept[id]
	return there
}

// run publishes and polls, faster than it does where people wait for it.
func (p *prototype) run(ctx context.Context) {
	for ctx.Err() == nil {
		p.poll(ctx)
		p.publish(ctx)
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// newPrototype is one whose certificate is of a CA that the broker knows by a file.
func newPrototype(t *testing.T, f *federation.Federation, theirs servertest.SubjectCA, id string) *prototype {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must(os.ReadFile(filepath.Join(f.Dir, "broker", "ca", "ca.crt")))(t))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots,
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{theirs.Issue(t, id)}}}
	t.Cleanup(transport.CloseIdleConnections)
	return &prototype{t: t, id: id, url: f.URL, http: &http.Client{Transport: transport},
		cpu: 8, provides: map[string]instruction{}, uses: map[string]instruction{}}
}

// joins advertises for the first time, and is approved.
func (p *prototype) joins(ctx context.Context, f *federation.Federation) {
	p.t.Helper()
	if status, said := p.publish(ctx); status != http.StatusForbidden || !strings.Contains(said, "approve") {
		p.t.Fatalf("%d %s", status, said)
	}
	must(f.Operator.SetMember(ctx, p.id, "approve"))(p.t)
}

func caFile(t *testing.T, dir string, theirs servertest.SubjectCA) string {
	t.Helper()
	file := filepath.Join(dir, "legacy-ca.crt")
	if err := os.WriteFile(file, theirs.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// An agent of the prototypes and new agents trade in one federation, in both directions; with whom
// it may, their SharingPolicies say.
func TestLegacy(t *testing.T) {
	t.Parallel()
	dir, theirs := t.TempDir(), servertest.NewSubjectCA(t)
	member := func(name string, sharing *api.Sharing) *federation.Member {
		return &federation.Member{Options: sim.Options{Name: name, Nodes: 1, CPU: 8, Memory: 32}, Sharing: sharing}
	}
	shares := func(level api.TrustLevel) *api.Sharing {
		return &api.Sharing{Terms: api.Terms{Trust: level}, Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}
	}
	f := &fair{t: t, rome: member("rome", shares(api.TrustLegacy)),
		milan: member("milan", shares(api.TrustLegacy)), oslo: member("oslo", nil)}
	ctx, stop := context.WithCancel(t.Context())
	f.Federation = must(federation.StartWith(ctx, dir, slog.New(slog.DiscardHandler),
		prototypes.Options{Agents: true, LegacyCA: caFile(t, dir, theirs)}, f.rome, f.milan, f.oslo))(t)
	old := newPrototype(t, f.Federation, theirs, "cluster-1")
	old.joins(ctx, f.Federation)
	done := make(chan struct{})
	go func() { defer close(done); old.run(ctx) }()
	t.Cleanup(func() { stop(); <-done; _ = f.Stop() })
	f.until("all are there", func() bool {
		e, err := f.rome.People.Evaluate(ctx, api.Request{Resources: api.Resources{"cpu": resource.MustParse("1")}})
		return err == nil && e.Decision.Candidates == 2
	})

	// It borrows from milan.
	var borrowed instruction
	if status, said := old.call(ctx, "POST", "/api/v1/reservations", `{"requestedResources":{"cpu":"2"},"duration":"1h","targetClusterID":"milan"}`, &borrowed); status != http.StatusCreated || borrowed.Status.Phase != "Reserved" {
		t.Fatalf("%d %s", status, said)
	}
	f.until("it knows that it may use milan", func() bool { return old.has(borrowed.ID, old.uses) })
	f.until("milan is instructed", func() bool {
		return f.milan.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: borrowed.ID},
			&api.ProviderInstruction{}) == nil
	})
	f.until("milan shows what it is", func() bool {
		var peer api.Peer
		err := f.milan.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: "cluster-1"}, &peer)
		c := meta.FindStatusCondition(peer.Status.Conditions, api.ConditionTrusted)
		return err == nil && c != nil && c.Reason == "Legacy" &&
			meta.IsStatusConditionTrue(peer.Status.Conditions, api.ConditionLegacyAccounting)
	})

	// It lends to rome, not to oslo.
	asks := func(m *federation.Member, name string) (s api.ResourceRequestStatus) {
		r := api.Request{Resources: api.Resources{"cpu": resource.MustParse("3")},
			Target: "cluster-1", Duration: &metav1.Duration{Duration: time.Hour}}
		must(m.People.MakeRequest(ctx, api.RequestCreate{Name: name, Request: r}))(t)
		f.becomes(m, name, func(now api.ResourceRequestStatus) bool {
			s = now
			return s.State == api.Reserved || s.State.Over() && s.State != ""
		})
		return s
	}
	if s := asks(f.oslo, "refused"); s.State != api.Rejected || !strings.Contains(s.Message, "trust: legacy") {
		t.Errorf("%+v", s)
	}
	lent := asks(f.rome, "lent")
	if lent.State != api.Reserved || lent.Provider != "cluster-1" ||
		!strings.Contains(lent.Message, "an admin peers the two clusters") {
		t.Fatalf("%+v", lent)
	}
	f.until("it holds what it lends", func() bool {
		return old.has(lent.Reservation, old.provides) &&
			old.available() == 5000
	})
	left := func() string {
		c := must(f.rome.People.Cluster(ctx, "cluster-1"))(t)
		q := c.Payload.Pools[api.GeneralPool].Available["cpu"]
		return q.String()
	}
	// Its own count and the broker's both have the 3: less is offered than there is, for a while, never more.
	f.until("the broker has heard of its count", func() bool { return left() == "2" })

	// The broker is stopped and comes back: what is bound stays, and the old agent's poll goes on.
	f.Broker.Stop()
	if err := f.Broker.Start(); err != nil {
		t.Fatal(err)
	}
	f.until("it is known again", func() bool {
		c, err := f.rome.People.Cluster(ctx, "cluster-1")
		return err == nil && c.Payload.Fresh
	})

	// rome gives it back: the broker's books are free of it when the old agent has polled, the
	// agent's own at its end.
	if err := f.rome.Objects.Delete(ctx,
		&api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lent"}}); err != nil {
		t.Fatal(err)
	}
	f.until("the broker's books are free of it", func() bool {
		r, err := f.rome.People.Reservation(ctx, lent.Reservation)
		return err == nil && r.Payload.State == api.Released && left() == "5"
	})
}

// A broker that runs in a cluster has the clusters which that one's Liqo knows in its catalog, too;
// of those that are members, each says itself who sees it. A consumer's choice among them outlives
// the broker.
func TestForeignClusters(t *testing.T) {
	t.Parallel()
	dir, theirs := t.TempDir(), servertest.NewSubjectCA(t)
	home := must(sim.NewCluster(t.Context(), sim.Options{Name: "home", Nodes: 1, Types: []kubeapi.Type{
		{GroupVersion: schema.GroupVersion{Group: "core.liqo.io", Version: "v1beta1"},
			Kind: "ForeignCluster", Resource: "foreignclusters", Status: true},
	}}))(t)
	objects := must(kube.New(home.API.Config(), kube.Options{}))(t)
	for _, name := range []string{"bonn", "hidden"} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "core.liqo.io/v1beta1", "kind": "ForeignCluster",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"clusterID": name}}}
		if err := objects.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		o.Object["status"] = map[string]any{"modules": map[string]any{"networking": map[string]any{"enabled": true}}}
		if err := objects.Status().Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	milan := &federation.Member{Options: sim.Options{Name: "milan", Nodes: 1},
		Sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}}
	hidden := &federation.Member{Options: sim.Options{Name: "hidden", Nodes: 1}}
	ctx, stop := context.WithCancel(t.Context())
	interfaces := prototypes.Options{Agents: true, LegacyCA: caFile(t, dir, theirs),
		Catalog: true, Orchestrator: true, Kubernetes: home.API.Config()}
	f := &fair{t: t}
	f.Federation = must(federation.StartWith(ctx, dir, slog.New(slog.DiscardHandler), interfaces, milan, hidden))(t)
	t.Cleanup(func() { stop(); _ = f.Stop() })
	old := newPrototype(t, f.Federation, theirs, "cluster-1")
	old.joins(ctx, f.Federation)
	catalog := func() string {
		var list []struct {
			Kind string
			Spec struct {
				ClusterIdentity        struct{ ClusterID string }
				OutgoingPeeringEnabled string
				NetworkingEnabled      string
			}
		}
		if status, said := old.call(ctx, "GET", "/api/clusters", "", &list); status != http.StatusOK {
			return said
		}
		var all []string
		for _, c := range list {
			all = append(all,
				c.Kind+" "+c.Spec.ClusterIdentity.ClusterID+" "+c.Spec.OutgoingPeeringEnabled+" "+c.Spec.NetworkingEnabled)
		}
		return strings.Join(all, ", ")
	}
	f.until("both kinds are in the catalog",
		func() bool { return catalog() == "ForeignCluster bonn Auto Yes, ForeignCluster milan Auto No" })
	if status, said := old.call(ctx, "GET", "/api/toggle?id=milan&enable=true",
		"", nil); status != http.StatusOK || said != "" {
		t.Errorf("%d %q", status, said)
	}
	f.Broker.Stop()
	if err := f.Broker.Start(); err != nil {
		t.Fatal(err)
	}
	f.until("the choice is there again",
		func() bool { return catalog() == "ForeignCluster bonn No Yes, ForeignCluster milan Yes No" })
	home.API.Down(true)
	time.Sleep(5100 * time.Millisecond)
	if said := catalog(); !strings.Contains(said, "own cluster does not say") {
		t.Error(said)
	}
}
