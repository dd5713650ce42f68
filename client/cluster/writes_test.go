package cluster_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// desk is an agent that answers questions by path, beside objects.
func desk(t *testing.T, answers map[string]any, objects ...kube.Object) (*cluster.Client, kube.Client) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[strings.TrimPrefix(r.URL.Path, api.Prefix)]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = api.Errorf(api.CodeNotFound, "no %s", r.URL.Path)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	known := runtime.NewScheme()
	if err := api.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).Build()
	return cluster.At(client.New(s.URL, nil), c), c
}

// request is an object that has a reservation.
func request(name, reservation string, labels map[string]string) *api.ResourceRequest {
	o := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name),
		Generation: 1, Labels: labels}}
	o.Spec.Request = transporttest.Request("2")
	o.Status.Reservation, o.Status.State = reservation, api.Held
	return o
}

// A reservation is released by its ID, once its volumes are given up. What is being released already is no error.
func TestRelease(t *testing.T) {
	volumes := &api.Volumes{Digest: "d-1", Count: 30, Claims: []string{"db/data"}}
	c, objects := desk(t, map[string]any{
		"/requests/default/r/impact": api.Impact{Volumes: volumes},
		"/reservations/r-old":        api.Envelope[api.Reservation]{ID: "r-old", Payload: api.Reservation{Object: "default/gone"}},
	}, request("r", "r-1", nil))
	for _, word := range []string{"", "d-0"} {
		refusal, _ := errors.AsType[*api.Error](c.ReleaseLocally(t.Context(), "r-1", api.Release{VolumesDie: word}))
		if refusal == nil || refusal.Code != api.CodeVolumesAtStake || refusal.Volumes.Digest != "d-1" ||
			!strings.Contains(refusal.Error(), "30 volumes (db/data and 29 more)") ||
			!strings.Contains(refusal.Remedy, "--volumes-die d-1") {
			t.Errorf("release with the word %q: %v", word, refusal)
		}
	}
	if err := c.ReleaseLocally(t.Context(), "r-1", api.Release{VolumesDie: "d-1"}); err != nil {
		t.Error(err)
	}
	if err := objects.Get(t.Context(), kube.ObjectKey{Namespace: "default", Name: "r"}, &api.ResourceRequest{}); err == nil {
		t.Error("the request is left")
	}
	if err := c.ReleaseLocally(t.Context(), "r-old", api.Release{}); err != nil {
		t.Errorf("what is being released: %v", err)
	}
	if err := c.ReleaseLocally(t.Context(), "r-2", api.Release{}); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("what no request made: %v", err)
	}
}

// A reservation whose request the user does not list is not taken for one that ends.
// A name that is empty is no request that nobody has answered.
func TestNoReservationIsNamed(t *testing.T) {
	config, admin := simulated(t)
	waits := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "waits"}}
	if err := admin.Create(t.Context(), waits); err != nil {
		t.Fatal(err)
	}
	user, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := user.ReleaseLocally(t.Context(), "", api.Release{}); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("no reservation is released: %v", err)
	}
	if _, err := user.ChangeLocally(t.Context(), "", api.ReservationChange{Withdraw: true}); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("no reservation is changed: %v", err)
	}
	if err := admin.Get(t.Context(), kube.ObjectKeyFromObject(waits), waits); err != nil {
		t.Errorf("the request that waits: %v", err)
	}
}

func TestReleaseOfWhatIsNotListed(t *testing.T) {
	of := func(id, object string) api.Envelope[api.Reservation] {
		return api.Envelope[api.Reservation]{ID: id, Payload: api.Reservation{Object: object}}
	}
	answers := map[string]any{"/reservations/r-new": of("r-new", "default/fresh"), "/reservations/r-other": of("r-other", "other/web")}
	_, objects := desk(t, nil, request("fresh", "", nil))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answers[strings.TrimPrefix(r.URL.Path, api.Prefix)])
	}))
	t.Cleanup(s.Close)
	c := cluster.At(client.New(s.URL, nil), objects, "default")
	for id, want := range map[string]api.Code{"r-new": api.CodeConflict, "r-other": api.CodeNotFound} {
		if err := c.ReleaseLocally(t.Context(), id, api.Release{}); api.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", id, err, want)
		}
	}
}

// Only a bound reservation changes, to amounts that a request may have. One of a VirtualNodePool is neither released nor
// changed.
func TestChangesThatCannotBe(t *testing.T) {
	bound := request("bound", "r-bound", nil)
	bound.Status.State, bound.Status.Began = api.Active, &metav1.Time{Time: time.Now()}
	c, _ := desk(t, nil, request("held", "r-held", nil), bound,
		request("burst-aaaaa", "r-pool", map[string]string{api.VirtualNodePoolLabel: "burst"}))
	for what, try := range map[string]struct {
		id     string
		change api.ReservationChange
		code   api.Code
		says   string
	}{
		"held":      {"r-held", api.ReservationChange{Resources: transporttest.CPU("4")}, api.CodeConflict, "bourse confirm r-held"},
		"of a pool": {"r-pool", api.ReservationChange{Resources: transporttest.CPU("4")}, api.CodeConflict, "VirtualNodePool burst"},
		"nothing":   {"r-bound", api.ReservationChange{Resources: transporttest.CPU("0")}, api.CodeInvalid, "no positive amount"},
		"units":     {"r-bound", api.ReservationChange{Units: 2}, api.CodeInvalid, "was not made from a plan"},
		"the past":  {"r-bound", api.ReservationChange{For: &metav1.Duration{Duration: -1}}, api.CodeInvalid, "not in the future"},
		"unknown":   {"r-none", api.ReservationChange{Units: 2}, api.CodeNotFound, "no request of this cluster"},
	} {
		if _, err := c.ChangeLocally(t.Context(), try.id, try.change); api.CodeOf(err) != try.code ||
			err != nil && !strings.Contains(err.Error(), try.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := c.ReleaseLocally(t.Context(), "r-pool", api.Release{}); api.CodeOf(err) != api.CodeConflict {
		t.Errorf("release of a pool's: %v", err)
	}
}

// What an admin says of a cluster, in one call, leaves what was said in another.
func TestPeers(t *testing.T) {
	key := transporttest.NewParty(t, "milan").Key.Public().Fingerprint().String()
	c, _ := desk(t, map[string]any{"/status": api.AgentStatus{Cluster: "rome"}},
		&api.Peer{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "milan", UID: "u", Generation: 1}})
	if _, err := c.Trust(t.Context(), "milan", key); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Suspend(t.Context(), "milan", "test"); err != nil {
		t.Fatal(err)
	}
	known, err := c.Peers(t.Context())
	if err != nil || len(known) != 1 || known[0].Payload.Spec.Fingerprint != key || !known[0].Payload.Spec.Suspend {
		t.Errorf("known are %+v, %v", known, err)
	}
	if resumed, err := c.Resume(t.Context(), "milan"); err != nil || resumed.Payload.Spec.Suspend ||
		resumed.Payload.Spec.SuspendReason != "" {
		t.Errorf("after it is resumed: %+v, %v", resumed, err)
	}
	for peer, fingerprint := range map[string]string{"milan": "x", "Mi lan": key, "rome": key} {
		if _, err := c.Trust(t.Context(), peer, fingerprint); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%s, %q: %v", peer, fingerprint, err)
		}
	}
}

// A broker is added with a token, changed without one, and removed. The main one can only be disabled.
func TestBrokers(t *testing.T) {
	c, objects := desk(t, nil,
		&api.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "north", UID: "u", Generation: 1},
			Spec: api.BrokerSpec{Join: "token"}})
	if _, err := c.PutBroker(t.Context(), "south", api.BrokerSpec{}); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("without a token: %v", err)
	}
	if _, err := c.PutBroker(t.Context(), "south", api.BrokerSpec{Join: "x"}); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("with another text: %v", err)
	}
	if b, err := c.PutBroker(t.Context(), "north", api.BrokerSpec{Disabled: true}); err != nil || !b.Payload.Spec.Disabled {
		t.Errorf("disabled: %+v, %v", b, err)
	}
	var stored api.Broker
	if err := objects.Get(t.Context(), kube.ObjectKey{Namespace: api.Namespace, Name: "north"}, &stored); err != nil ||
		stored.Spec.Join != "token" {
		t.Errorf("its token is %q, %v", stored.Spec.Join, err)
	}
	if err := c.DeleteBroker(t.Context(), api.MainBroker); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("the main one: %v", err)
	}
	for i, want := range []api.Code{"", api.CodeNotFound} {
		if err := c.DeleteBroker(t.Context(), "north"); err != nil && api.CodeOf(err) != want || err == nil && want != "" {
			t.Errorf("%d: %v, want %q", i, err, want)
		}
	}
}
