package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// right is one thing that RBAC allows, as narrow as it can be written. Name is empty for any.
type right struct{ Verb, Group, Resource, Namespace, Name string }

func (r right) allows(a answer) bool {
	return r.Verb == a.Verb && r.Group == a.Object.Group && r.Resource == a.resource() &&
		(r.Namespace == "" || r.Namespace == a.Object.Namespace) && (r.Name == "" || r.Name == a.Object.Name)
}

func (r right) String() string {
	return strings.Join([]string{r.Verb, r.Group + "/" + r.Resource, r.Namespace + "/" + r.Name}, " ")
}

// unused are the rights that an agent does not use here, and the reason why it has them.
var unused = map[string]string{
	"update bourse.dev/resourcerequests/finalizers /": "asked about by the admission plugin OwnerReferencesPermissionEnforcement, which is on here, not by a request",
	"patch events.k8s.io/events /":                    "for an Event that repeats itself",
	"patch /events bourse/":                           "the same, of leading",
	"get bourse.dev/providerinstructions bourse/":     "for who approves by the Distributed Catalog's interface",
	"get bourse.dev/contracts bourse/":                "for who takes back by the same interface",
	"get bourse.dev/brokers bourse/":                  "for who disables or removes another broker by the same interface",
	"patch bourse.dev/brokers bourse/":                "the same",
	"delete bourse.dev/brokers bourse/":               "the same",
	"get /pods/portforward bourse/":                   "for users: the Role bourse-port-forward",
	"create /pods/portforward bourse/":                "the same",
}

// The agent can do what its chart says and uses all of it.
func TestAgentsRightsAreTheLeast(t *testing.T) {
	w := start(t)
	useAllRights(t, w)
	rights := append(agentsRights(t, w.Path("charts/rendered/agent-rights.yaml")),
		agentsRights(t, w.Path("config/distributed-catalog/rights.yaml"))...)
	eventually(t, "the agents have used all their rights", func(context.Context) (err error) { // some a moment later
		used := map[right]bool{}
		for _, m := range w.Members {
			for _, a := range answers(t, m) {
				i := slices.IndexFunc(rights, func(r right) bool { return r.allows(a) })
				switch {
				case i < 0:
					t.Fatalf("an agent of %s asks for what its chart does not give it: %s (%d)", m.Name, a, a.Status.Code)
				case a.Status.Code != http.StatusForbidden: // an API server that starts forbids until it has read the roles
					used[rights[i]] = true
				}
			}
		}
		for _, r := range rights {
			if !used[r] && unused[r.String()] == "" {
				err = errors.Join(err, fmt.Errorf("the chart gives the agent a right that it does not use: %s", r))
			}
		}
		return err
	})
}

// usePools has people choose a provider of a VirtualNodePool, and stop it.
func usePools(t *testing.T, m *federation.Member) {
	t.Helper()
	pool := &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: "rights"}, Spec: api.VirtualNodePoolSpec{
		Namespaces: []string{"rights"}, Max: cpu("1"), Providers: api.PoolProviders{Only: []string{"nobody"}},
	}}
	if err := m.Objects.Create(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	people := m.People(0)
	if _, err := people.PlanVirtualNodePool(t.Context(), "other", pool.Spec); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent knows the pool", func(ctx context.Context) error {
		_, err := people.AdmitProvider(ctx, "rights", "somebody", api.Admission{Admitted: true})
		return err
	})
	if err := people.StopVirtualNodePool(t.Context(), "rights", ""); err != nil {
		t.Fatal(err)
	}
}

// useAllRights has agents do what they do not do every day.
func useAllRights(t *testing.T, w *world) {
	t.Helper()
	people := w.rome.People(0)
	made, err := people.MakeRequest(t.Context(), api.RequestCreate{Name: "by-listener", Request: api.Request{
		Resources: cpu("1"), Target: "milan", Confirm: true,
	}})
	if err != nil {
		t.Fatal(err)
	}
	namespace, name, _ := strings.Cut(made.ID, "/")
	listener := func(state api.State) (id string) {
		eventually(t, "the request is "+string(state), func(ctx context.Context) error {
			now, err := people.Request(ctx, namespace, name)
			if err == nil && now.Payload.Status.State != state {
				err = fmt.Errorf("it is %q: %s", now.Payload.Status.State, now.Payload.Status.Message)
			}
			id = now.Payload.Status.Reservation
			return err
		})
		return id
	}
	listener(api.Held)
	if _, err := people.ConfirmRequest(t.Context(), namespace, name); err != nil {
		t.Fatal(err)
	}
	id := listener(api.Reserved)
	if err := people.ReleaseLocally(t.Context(), id, api.Release{}); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*federation.Member{w.rome, w.paris} { // of a newer and an older API server
		if _, err := m.People(0).VirtualNodePools(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	usePools(t, w.rome)
	useSessions(t, w.rome)
	eventually(t, "it is released", func(ctx context.Context) error {
		state, err := brokered(ctx, w.rome, id)
		if err == nil && state != api.Released {
			err = fmt.Errorf("it is %s", state)
		}
		return err
	})
	// the second at once, even if a cache is stale
	for _, word := range []string{"SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", ""} {
		if _, err := people.Trust(t.Context(), "milan", word); err != nil {
			t.Fatal(err)
		}
		var peer api.Peer
		if err := w.rome.Objects.Get(t.Context(), kube.ObjectKey{Namespace: api.Namespace, Name: "milan"},
			&peer); err != nil || peer.Spec.Fingerprint != word {
			t.Fatalf("the admin said %q, and the object %q, %v", word, peer.Spec.Fingerprint, err)
		}
	}
	joinsAndLeaves(t, w)
	trades(t, w)
	proposes(t, w)
	const spare = `{"offerID":"rome_spare","offerName":"spare","plans":[{"planID":"rome_spare_small","planCost":0.1,` +
		`"planCostCurrency":"EUR","planCostPeriod":"hour","planQuantity":1,"resources":{"cpu":"1","ram":"2Gi"}}]}`
	byCatalog(t, w.rome, "POST", "offers", spare)
	byCatalog(t, w.rome, "POST", "cluster/prettyname?id=Roma", "")
	byCatalog(t, w.rome, "DELETE", "offers?id=rome_spare", "")
	namesItself(t, w.rome)
	editInstructions(t, w)
	if _, err := w.paris.People(0).Contracts(t.Context()); err != nil {
		t.Fatal(err)
	}
	becomes(t, w.paris, ask(t, w.paris, "default", "of-an-older-api-server",
		api.Request{Resources: cpu("1"), Target: "milan"}), api.Reserved)
}

// byCatalog makes a call of the Distributed Catalog's interface at a member, and returns its answer.
func byCatalog(t *testing.T, m *federation.Member, method, path, body string) string {
	t.Helper()
	socket := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context,
		_, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", m.Socket(0))
	}}}
	defer socket.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://agent/api/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := socket.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%s %s: %s, %v: %s", method, path, answer.Status, err, said)
	}
	return string(said)
}

// joinsAndLeaves has an agent deal with a broker by a second name, disabled and enabled on the way.
func joinsAndLeaves(t *testing.T, w *world) {
	t.Helper()
	people := w.rome.People(0)
	token, err := w.Operator.CreateToken(t.Context(), "rome", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []api.BrokerSpec{{Join: token.Token}, {Disabled: true}, {}} {
		if _, err := people.PutBroker(t.Context(), "again", spec); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the agent says how the broker stands", func(ctx context.Context) error {
			all, err := people.Brokers(ctx)
			for _, b := range all {
				c := meta.FindStatusCondition(b.Payload.Status.Conditions, api.ConditionConnected)
				if b.ID == "again" && c != nil && (c.Reason == "Disabled") == spec.Disabled {
					return err
				}
			}
			return fmt.Errorf("%+v, %v", all, err)
		})
	}
	if err := people.DeleteBroker(t.Context(), "again"); err != nil {
		t.Fatal(err)
	}
}

// proposes has rome propose to paris, and paris forget what it did not receive.
func proposes(t *testing.T, w *world) {
	t.Helper()
	spec := api.OfferSpec{Plans: []api.Plan{{Name: "small", Resources: cpu("1")}}}
	if _, err := w.paris.People(0).PutOffer(t.Context(), "talks", spec); err != nil {
		t.Fatal(err)
	}
	asked := &api.Proposal{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "talks"},
		Spec: api.ProposalSpec{Seller: "paris", Offer: "talks", Plan: "small"}}
	if err := w.rome.Objects.Create(t.Context(), asked); err != nil {
		t.Fatal(err)
	}
	eventually(t, "paris shows what rome proposes", func(ctx context.Context) error {
		var all api.ProposalList
		if err := w.paris.Objects.List(ctx, &all, kube.InNamespace(api.Namespace)); err != nil || len(all.Items) == 1 {
			return err
		}
		err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(asked), asked)
		return errors.Join(err, fmt.Errorf("paris shows %d; rome says %+v", len(all.Items), asked.Status))
	})
	ghost := &api.Proposal{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "ghost"}, Spec: asked.Spec}
	ghost.Spec.Buyer = "rome"
	if err := w.paris.Objects.Create(t.Context(), ghost); err != nil {
		t.Fatal(err)
	}
	eventually(t, "paris deletes what it did not receive", func(ctx context.Context) error {
		err := w.paris.Objects.Get(ctx, kube.ObjectKeyFromObject(ghost), ghost)
		if err == nil {
			return errors.New("it is there")
		}
		return kube.IgnoreNotFound(err)
	})
	eventually(t, "rome sees what it buys", func(ctx context.Context) error {
		_, err := w.rome.People(0).Offer(ctx, "paris", "talks")
		return err
	})
	byCatalog(t, w.rome, "GET", "catalog", "")
	byCatalog(t, w.rome, "POST", "contracts/buy?offer-id=paris_talks&plan-id=paris_talks_small", `{"clusterID":"paris"}`)
	all, err := w.rome.People(0).Contracts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if terms := d.Payload.Status.Terms; terms.Offer == "talks" && terms.Buyer == "rome" {
			byCatalog(t, w.rome, "DELETE", "contracts?id="+d.Payload.Spec.Reservation, "")
			eventually(t, "what was bought has ended", func(ctx context.Context) error {
				state, err := brokered(ctx, w.rome, d.Payload.Spec.Reservation)
				if err == nil && state != api.Released {
					err = fmt.Errorf("it is %s", state)
				}
				return err
			})
		}
	}
	if err := w.paris.People(0).DeleteOffer(t.Context(), "talks"); err != nil {
		t.Fatal(err)
	}
}

// namesItself runs an agent that asks Liqo for its cluster's ID, and one that asks Kubernetes.
func namesItself(t *testing.T, m *federation.Member) {
	t.Helper()
	waits, err := m.RunAgent("agent-liqo", "--socket=")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent waits for Liqo", func(context.Context) error {
		if !strings.Contains(waits.Log(), "waiting for Liqo's cluster ID") {
			return errors.New(waits.Log())
		}
		return nil
	})
	waits.Kill()
	stranger, err := m.RunAgentToItsEnd("agent-without-liqo", "--without-liqo", "--socket=", "--identity-dir=stranger",
		"--broker-cert-path=nowhere", "--broker-url=https://127.0.0.1:1") // it ends before it opens the Ledger of another
	if err != nil {
		t.Fatal(err)
	}
	<-stranger.Done()
	if !strings.Contains(stranger.Log(), "--broker-cert-path: ") {
		t.Error(stranger.Log())
	}
}

// agentsRights are the rights that a manifest of roles gives, one by one.
func agentsRights(t *testing.T, manifest string) (rights []right) {
	t.Helper()
	for _, o := range objects(t, manifest) {
		if !strings.HasSuffix(o.GetKind(), "Role") {
			continue
		}
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, verb := range rule.Verbs {
				for _, group := range rule.APIGroups {
					for _, resource := range rule.Resources {
						for _, name := range names {
							rights = append(rights, right{verb, group, resource, role.Namespace, name})
						}
					}
				}
			}
		}
	}
	if len(rights) < 9 {
		t.Fatalf("only %d rights in %s", len(rights), manifest)
	}
	return rights
}

// objects are those of a file of YAML documents.
func objects(t *testing.T, path string) (all []*unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
}
