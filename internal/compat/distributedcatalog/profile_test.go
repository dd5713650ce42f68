package distributedcatalog

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
)

// schemeOf has the kinds of package api.
func schemeOf(t *testing.T) *runtime.Scheme {
	t.Helper()
	known := runtime.NewScheme()
	if err := api.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	return known
}

// homeInMemory keeps a profile.
type homeInMemory struct {
	Home
	Profiles []Profile
}

func (h *homeInMemory) Profile(context.Context) (Profile, error) { return h.Profiles[0], nil }

func (h *homeInMemory) SetProfile(_ context.Context, p Profile) error {
	h.Profiles[0] = p
	return nil
}

// Buyers see a changed pretty name: the seller's offers get it, but not those that have a name of their own. After an
// error the same call goes on.
func TestAChangedPrettyNameReachesBuyers(t *testing.T) {
	labels := map[string]map[string]string{
		"plain": nil, "named": {labelID: "x", labelPretty: "Milano"}, "own": {labelPretty: "Shop"}, "lost": {labelPretty: "Milano"},
	}
	away := true
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(api.AgentStatus{Cluster: "milan"})
	}))
	t.Cleanup(s.Close)
	objects := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c kube.WithWatch, o kube.Object, patch kube.Patch, options ...kube.PatchOption) error {
			if o.GetName() == "lost" && away {
				return errors.New("away")
			}
			return c.Patch(ctx, o, patch, options...)
		},
	}).Build()
	plan := api.Plan{Name: "small", Resources: api.Resources{"cpu": resource.MustParse("1")}}
	for name, of := range labels {
		o := &api.Offer{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: name, UID: types.UID(name), Generation: 1}}
		o.Spec = api.OfferSpec{Type: "compute", Labels: of, Plans: []api.Plan{plan}}
		if err := objects.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	shown := func() map[string]map[string]string {
		t.Helper()
		var all api.OfferList
		if err := objects.List(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		out := map[string]map[string]string{}
		for _, o := range all.Items {
			out[o.Name] = o.Spec.Labels
		}
		return out
	}
	home := &homeInMemory{Profiles: []Profile{{PrettyName: "Milano"}}}
	c := &connector{ConnectorOptions: ConnectorOptions{Home: home}, Client: cluster.At(client.New(s.URL, nil), objects)}
	sets := func(name string) error {
		r := httptest.NewRequest(http.MethodPost, "/api/cluster/prettyname?id="+name, nil)
		_, err := c.setPrettyName(httptest.NewRecorder(), r)
		return err
	}
	if err := sets("Milan"); err == nil || home.Profiles[0].PrettyName != "Milano" {
		t.Errorf("while an offer cannot be changed: %v, %+v", err, home.Profiles)
	}
	away = false
	if err := errors.Join(sets("Milan"), sets("Milan")); err != nil || home.Profiles[0].PrettyName != "Milan" {
		t.Errorf("%v, %+v", err, home.Profiles)
	}
	want := map[string]map[string]string{
		"plain": nil, "named": {labelID: "x", labelPretty: "Milan"}, "own": {labelPretty: "Shop"}, "lost": {labelPretty: "Milan"},
	}
	if diff := cmp.Diff(want, shown()); diff != "" {
		t.Error(diff)
	}
	home.Profiles[0].PrettyName = "" // as it was never named: the offers show the cluster's ID
	if err := sets("Roma"); err != nil || !maps.Equal(shown()["plain"], map[string]string{labelPretty: "Roma"}) {
		t.Errorf("%v, %v", err, shown()["plain"])
	}
}
