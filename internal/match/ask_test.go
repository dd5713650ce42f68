package match_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/match"
)

func TestAskFillsInDefaults(t *testing.T) {
	a, err := match.New().Ask("rome", api.Request{Resources: of("cpu", "1500m", "memory", "1Gi", "pods", "0")})
	if err != nil {
		t.Fatal(err)
	}
	if a.Request.Pool != "general" || a.Request.Strategy != api.Balance ||
		a.Duration != 24*time.Hour || a.Request.Duration.Duration != a.Duration {
		t.Errorf("got %+v", a)
	}
	if got := fmt.Sprint(a.Size); got != "[{cpu 1500} {memory 1073741824}]" {
		t.Errorf("size %s", got)
	}
}

// TestAskRefuses is what a hostile or mistaken consumer gets: an error that names the field.
func TestAskRefuses(t *testing.T) {
	ok := of("cpu", "1")
	hour := func(h time.Duration) *metav1.Duration { return &metav1.Duration{Duration: h} }
	many := func(n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("cluster-%d", i))
		}
		return names
	}
	properties := map[string]string{}
	for _, name := range many(33) {
		properties[name] = ""
	}
	resources := api.Resources{}
	for _, name := range many(65) {
		maps.Copy(resources, of("example.com/"+name, "1"))
	}
	for name, in := range map[string]struct {
		field string
		api.Request
	}{
		"nothing":             {"resources", api.Request{}},
		"nothing positive":    {"resources", api.Request{Resources: of("cpu", "0")}},
		"negative":            {"resources.cpu", api.Request{Resources: of("cpu", "-1")}},
		"negative and not":    {"resources.cpu", api.Request{Resources: of("memory", "1Gi", "cpu", "-1n")}},
		"absurd":              {"resources.cpu", api.Request{Resources: of("cpu", "9E")}},
		"absurd exponent":     {"resources.memory", api.Request{Resources: of("memory", "1e60")}},
		"no resource":         {"resources", api.Request{Resources: of("a b", "1")}},
		"control characters":  {"resources", api.Request{Resources: of("cpu\x1b[2J", "1")}},
		"too many resources":  {"resources", api.Request{Resources: resources}},
		"a pod beyond all":    {"podShape.cpu", api.Request{Resources: ok, PodShape: of("cpu", "1001m")}},
		"a pod of another":    {"podShape.memory", api.Request{Resources: ok, PodShape: of("cpu", "1", "memory", "1")}},
		"a pod of nothing":    {"podShape", api.Request{Resources: ok, PodShape: of("cpu", "0")}},
		"a negative pod":      {"podShape.cpu", api.Request{Resources: ok, PodShape: of("cpu", "-1")}},
		"short":               {"duration", api.Request{Resources: ok, Duration: hour(time.Second)}},
		"negative time":       {"duration", api.Request{Resources: ok, Duration: hour(-time.Hour)}},
		"no time":             {"duration", api.Request{Resources: ok, Duration: hour(0)}},
		"long":                {"duration", api.Request{Resources: ok, Duration: hour(8761 * time.Hour)}},
		"pool":                {"pool", api.Request{Resources: ok, Pool: "General"}},
		"pool in another":     {"pool", api.Request{Resources: ok, Pool: "general cpu"}},
		"long pool":           {"pool", api.Request{Resources: ok, Pool: strings.Repeat("a", 64)}},
		"strategy":            {"strategy", api.Request{Resources: ok, Strategy: "best"}},
		"target":              {"target", api.Request{Resources: ok, Target: "../rome"}},
		"exclude":             {"exclude", api.Request{Resources: ok, Exclude: []string{"rome", ""}}},
		"too many excluded":   {"exclude", api.Request{Resources: ok, Exclude: many(65)}},
		"prefer":              {"prefer", api.Request{Resources: ok, Prefer: []string{"Rome"}}},
		"too many preferred":  {"prefer", api.Request{Resources: ok, Prefer: many(17)}},
		"too many properties": {"properties", api.Request{Resources: ok, Properties: properties}},
		"property of control": {"properties", api.Request{Resources: ok, Properties: map[string]string{"a": "\x1b[2J"}}},
		"property not UTF-8":  {"properties", api.Request{Resources: ok, Properties: map[string]string{"\xff": "a"}}},
		"long property": {"properties", api.Request{Resources: ok,
			Properties: map[string]string{"a": strings.Repeat("a", 317)}}},
		"where": {"where", api.Request{Resources: ok, Where: "region =="}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := match.New().Ask("rome", in.Request)
			var e *api.Error
			if !errors.As(err, &e) || e.Code != api.CodeInvalid || e.Field != in.field {
				t.Fatalf("got %v, want Invalid at %s", err, in.field)
			}
			if e.Remedy == "" || len(e.Error()) > 500 || strings.ContainsAny(e.Error(), "\x1b\n") {
				t.Errorf("not an error for people: %q", e.Error())
			}
		})
	}
	if _, err := match.New().Ask("Rome!", api.Request{Resources: ok}); err == nil {
		t.Error("a consumer that is none")
	}
}

// TestAskOfAnyResource: what is asked need not be known to anyone, and there may be much of it.
func TestAskOfAnyResource(t *testing.T) {
	names := []string{"cpu", "example.com/a", "example.com/b", "memory", "pods"}
	engine := match.New()
	shared, asked := api.Resources{}, api.Resources{}
	for i, name := range names {
		maps.Copy(shared, of(name, fmt.Sprint(8*(i+1))))
	}
	view := viewOf(t, map[string]cluster{"amber": {Pools: map[string]api.Pool{"general": {Shared: shared}}}})
	for i, name := range names {
		maps.Copy(asked, of(name, fmt.Sprint(6*(i+1))))
		if got := engine.Decide(view, ask(t, engine, api.Request{Resources: asked}),
			now).Decision; got.Top[0].Score != 250_000 {
			t.Errorf("%v: %+v", asked, got)
		}
	}
	maps.Copy(asked, of("example.com/none", "1"))
	got := engine.Decide(view, ask(t, engine, api.Request{Resources: asked}), now).Decision
	if got.NearestMiss == nil || got.NearestMiss.Message != "1 example.com/none short: 0 of 1 available" {
		t.Errorf("got %+v", got)
	}
}

func ask(tb testing.TB, e *match.Engine, r api.Request) match.Ask {
	tb.Helper()
	if r.Resources == nil {
		r.Resources = of("cpu", "4", "memory", "8Gi")
	}
	a, err := e.Ask("cluster-00000", r)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}
