package match_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/match"
)

// TestAllows is what a provider's gate asks: may this consumer have that?
func TestAllows(t *testing.T) {
	engine := match.New()
	a, err := engine.Ask("rome", api.Request{Resources: of("cpu", "1500m", "memory", "8Gi"), Pool: "gpu"})
	if err != nil {
		t.Fatal(err)
	}
	a.Duration = 90 * time.Minute
	rome := api.Card{Cluster: "rome", Properties: api.Properties{Region: "eu", Labels: map[string]string{"tier": "gold"}}}
	for allow, want := range map[string]struct {
		allowed bool
		code    api.Code
	}{
		``:      {true, ""},
		`true`:  {true, ""},
		`false`: {false, ""},
		`consumer.cluster in ["rome", "oslo"] && consumer.region == "eu"`:             {true, ""},
		`consumer.labels.tier == "gold" && !has(consumer.labels.team)`:                {true, ""},
		`request.resources.cpu == 1.5 && request.resources.memory < 9e9`:              {true, ""},
		`request.pool == "gpu" && request.seconds == 5400`:                            {true, ""},
		`has(request.resources.pods)`:                                                 {false, ""},
		`request.resources.pods < 3`:                                                  {false, api.CodeForbidden},
		`consumer.zones.exists(z, z == "a")`:                                          {false, api.CodeForbidden},
		`consumer.kubernetes < "v2"`:                                                  {false, api.CodeForbidden},
		`region == "eu"`:                                                              {false, api.CodeInvalid},
		`consumer`:                                                                    {false, api.CodeInvalid},
		`request.seconds`:                                                             {false, api.CodeInvalid},
		strings.Repeat(" ", 2048) + "true":                                            {false, api.CodeInvalid},
		`consumer.zones.all(a, consumer.zones.all(b, consumer.zones.all(c, a == b)))`: {false, api.CodeInvalid},
	} {
		for range 2 { // compiled, and known
			got, err := engine.Allows(allow, rome, a)
			var e *api.Error
			if errors.As(err, &e); got != want.allowed || (err != nil) != (want.code != "") ||
				err != nil && (e.Code != want.code || e.Field != "allow") {
				t.Errorf("%.80q: %v, %v; want %v", allow, got, err, want)
			}
			if err := engine.CheckAllow(allow); (err != nil) != (want.code == api.CodeInvalid) {
				t.Errorf("check %.80q: %v", allow, err)
			}
		}
	}
}

// TestAllowsIsBounded: a loop over usual lists is allowed, one over a long list is stopped.
func TestAllowsIsBounded(t *testing.T) {
	engine := match.New()
	const allow = `consumer.zones.all(a, consumer.zones.exists(b, a == b))`
	zones := func(n int) api.Card {
		return api.Card{Cluster: "rome", Properties: api.Properties{Zones: strings.Fields(strings.Repeat("a ", n) + "b")}}
	}
	if ok, err := engine.Allows(allow, zones(5), match.Ask{}); !ok || err != nil {
		t.Error(ok, err)
	}
	var e *api.Error
	if ok, err := engine.Allows(strings.Replace(allow, "a == b", `a == b && b == "b"`, 1),
		zones(10_000), match.Ask{}); ok || !errors.As(err, &e) || e.Code != api.CodeForbidden {
		t.Error(ok, err)
	}
}
