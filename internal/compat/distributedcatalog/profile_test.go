package distributedcatalog

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
)

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
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		name, put := strings.CutPrefix(r.URL.Path, api.Prefix+"/offers/")
		var answer any = api.AgentStatus{Cluster: "milan"}
		switch {
		case put && name == "lost" && away:
			w.WriteHeader(http.StatusServiceUnavailable)
			answer = api.Errorf(api.CodeUnavailable, "away")
		case put:
			var spec api.OfferSpec
			if err := json.NewDecoder(r.Body).Decode(&spec); err != nil {
				t.Error(err)
			}
			labels[name] = spec.Labels
			answer = api.Envelope[api.OwnOffer]{ID: name}
		case strings.HasSuffix(r.URL.Path, "/offers"):
			var list api.List[api.OwnOffer]
			for _, name := range []string{"plain", "named", "own", "lost"} {
				own := api.OwnOffer{Spec: api.OfferSpec{Labels: labels[name], Plans: []api.Plan{}}}
				list.Items = append(list.Items, api.Envelope[api.OwnOffer]{ID: name, Payload: own})
			}
			answer = list
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	home := &homeInMemory{Profiles: []Profile{{PrettyName: "Milano"}}}
	c := &connector{ConnectorOptions: ConnectorOptions{Home: home}, Client: client.New(s.URL, nil)}
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
	if diff := cmp.Diff(want, labels); diff != "" {
		t.Error(diff)
	}
	home.Profiles[0].PrettyName = "" // as it was never named: the offers show the cluster's ID
	if err := sets("Roma"); err != nil || !maps.Equal(labels["plain"], map[string]string{labelPretty: "Roma"}) {
		t.Errorf("%v, %v", err, labels["plain"])
	}
}
