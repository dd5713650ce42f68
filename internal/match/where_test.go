package match_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/match"
)

// where is what a `where` comes to for a cluster: a reason, or nothing if it holds.
func where(tb testing.TB, c cluster, expression string) string {
	tb.Helper()
	engine := match.New()
	a, err := engine.Ask("rome", api.Request{Resources: of("cpu", "1"), Where: expression})
	if err != nil {
		tb.Fatal(err)
	}
	return engine.Evaluate(viewOf(tb, map[string]cluster{"amber": c}), a, now).Clusters[0].Reason
}

func TestWhere(t *testing.T) {
	uptime := int64(990_000)
	full := cluster{
		Uptime: &uptime,
		Properties: api.Properties{
			Region: "eu", Zones: []string{"a", "b"}, Architectures: []string{"amd64"}, GPUs: []string{"A100"},
			Kubernetes: "v1.35.4", Liqo: "v1.2.0", StorageClasses: []string{"fast"}, Labels: map[string]string{"tier": "gold",
				"floor": "3"},
		},
		Pools: map[string]api.Pool{"general": {
			Capacity: of("cpu", "16", "memory", "64Gi"), Allocatable: of("cpu",
				"15500m", "memory", "60Gi"), Shared: of("cpu", "8"),
		}},
	}
	bare := lends("cpu", "8")
	for expression, want := range map[string][2]string{ // for full, for bare
		"\n\ttrue\r\n":                              {"", ""},
		`region != "\u001b"`:                        {"", "WhereUnknown"},
		`true`:                                      {"", ""},
		`false`:                                     {"WhereFalse", "WhereFalse"},
		`cluster == "amber"`:                        {"", ""},
		`region == "eu"`:                            {"", "WhereUnknown"},
		`region != "us"`:                            {"", "WhereUnknown"},
		`!(region == "us")`:                         {"", "WhereUnknown"},
		`region == "us" || cluster == "amber"`:      {"", ""},
		`region == "us" && cluster == "cedar"`:      {"WhereFalse", "WhereFalse"},
		`"a" in zones && size(zones) == 2`:          {"", "WhereUnknown"},
		`zones.exists(z, z.startsWith("b"))`:        {"", "WhereUnknown"},
		`zones.all(z, z in ["a", "b", "c"])`:        {"", "WhereUnknown"},
		`zones[1] == "b"`:                           {"", "WhereUnknown"},
		`gpus.exists_one(g, g.matches("^A1"))`:      {"", "WhereUnknown"},
		`"fast" in storageClasses`:                  {"", "WhereUnknown"},
		`kubernetes.startsWith("v1.35")`:            {"", "WhereUnknown"},
		`liqo.contains("1.2")`:                      {"", "WhereUnknown"},
		`labels.tier == "gold"`:                     {"", "WhereUnknown"},
		`labels["tier"] == "silver"`:                {"WhereFalse", "WhereUnknown"},
		`has(labels.tier)`:                          {"", "WhereFalse"},
		`has(labels.other)`:                         {"WhereFalse", "WhereFalse"},
		`"tier" in labels`:                          {"", "WhereFalse"},
		`labels.other == "gold"`:                    {"WhereUnknown", "WhereUnknown"},
		`int(labels.floor) >= 3`:                    {"", "WhereUnknown"},
		`int(labels.tier) >= 3`:                     {"WhereUnknown", "WhereUnknown"},
		`1 / int(labels.floor) == 1 / 0`:            {"WhereUnknown", "WhereUnknown"},
		`shared.cpu == 8.0 && shared.cpu <= 8`:      {"", ""},
		`allocatable.cpu >= 15.5`:                   {"", "WhereFalse"},
		`allocatable.cpu > 15.5`:                    {"WhereFalse", "WhereFalse"},
		`"memory" in allocatable`:                   {"", "WhereFalse"},
		`3 in {3: capacity} && size(capacity) == 2`: {"", "WhereFalse"},
		`capacity["memory"] == 68719476736.0`:       {"", "WhereUnknown"},
		`capacity == {"cpu": 16.0, "memory": 64.0 * 1024.0 * 1024.0 * 1024.0}`: {"", "WhereFalse"},
		`capacity.all(k, capacity[k] > 0.0)`:                                   {"", ""},
		`{"a": shared}.a.cpu == 8.0`:                                           {"", ""},
		`capacity.memory == 64.0*1024.0*1024.0*1024.0`:                         {"", "WhereUnknown"},
		`capacity["nvidia.com/gpu"] > 0`:                                       {"WhereUnknown", "WhereUnknown"},
		`has(shared.memory)`:                                                   {"WhereFalse", "WhereFalse"},
		`uptime >= 0.99`:                                                       {"", "WhereUnknown"},
		`uptime > 0.995`:                                                       {"WhereFalse", "WhereUnknown"},
		`uptime < 1`:                                                           {"", "WhereUnknown"},
		`!(uptime < 0.99)`:                                                     {"", "WhereUnknown"},
	} {
		t.Run(expression, func(t *testing.T) {
			if got := [2]string{where(t, full, expression), where(t, bare, expression)}; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// An answer is not remembered longer than the uptime that it was computed from.
func TestWhereFollowsUptime(t *testing.T) {
	const day = market.Time(24 * time.Hour / time.Millisecond)
	s := market.New("")
	put(t, s, "amber", lends("cpu", "8"), 1)
	engine := match.New()
	a, err := engine.Ask("rome", api.Request{Resources: of("cpu", "1"), Where: "uptime >= 0.99"})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		leases market.Leases
		want   string
	}{
		{market.Leases{Regained: []string{"amber"}}, "WhereUnknown"},
		{market.Leases{Awake: day - 1, Lost: []string{"amber"}}, "WhereUnknown"},
		{market.Leases{Awake: day}, ""},
		{market.Leases{Awake: 2 * day}, "WhereFalse"},
	} {
		s.Apply(market.Event{Time: now, Leases: &step.leases})
		if got := engine.Evaluate(s.Publish(nil), a, now).Clusters[0].Reason; got != step.want {
			t.Errorf("awake for %d: got %q, want %q", step.leases.Awake, got, step.want)
		}
	}
}

// TestWhereInvalid is what cannot be a `where`.
func TestWhereInvalid(t *testing.T) {
	for expression, says := range map[string]string{
		`region ==`:                      "column 10",
		`regoin == "eu"`:                 "cluster, region, zones",
		`region`:                         "is string, not true or false",
		`labels.tier`:                    "not true or false",
		`labels`:                         "not true or false",
		`region == 3`:                    "no matching overload",
		`region + region == "eueu"`:      "no matching overload", // nothing may grow
		`zones + zones == zones`:         "no matching overload",
		`zones.filter(z, true) == zones`: "undeclared reference",
		`zones.map(z, z) == zones`:       "undeclared reference",
		`timestamp("2026-11-20T00:00:00Z") > timestamp("2026-11-20T00:00:00Z")`: "undeclared reference",
		`[1, "a"][0] == 1`:                                               "expected type 'int'",
		`consumer.region == "eu"`:                                        "undeclared reference", // that is of allow
		`region == "` + strings.Repeat("a", 2048) + `"`:                  "use at most 2048",
		strings.Repeat("a", 1<<20):                                       "use at most 2048",
		strings.Repeat("(", 1000) + "true" + strings.Repeat(")", 1000):   "recursion",
		strings.Repeat("-(", 600) + "1" + strings.Repeat(")", 600):       "recursion",
		strings.Repeat("[", 2000):                                        "recursion",
		strings.Repeat("[", 240) + strings.Repeat("]", 240) + " == []":   "recursion", // would take seconds to check
		"size([" + strings.Repeat("1,", 1000) + "]) > 1":                 "node",
		`region.matches("(((a{99}){99}){99}")`:                           "",
		`region.matches("` + strings.Repeat("a?", 900) + `")`:            "regex",
		`zones.all(a, zones.all(b, zones.all(c, zones.all(d, a == d))))`: "nest fewer loops",
		"region == \"\x1b[2J\"":                                          "do not print",
		"region == \"\u202e\"":                                           "do not print",
		"region == '\xff'":                                               "do not print",
	} {
		t.Run(fmt.Sprintf("%.40q", expression), func(t *testing.T) {
			start := time.Now()
			_, err := match.New().Ask("rome", api.Request{Resources: of("cpu", "1"), Where: expression})
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), says) {
				t.Errorf("got %v", err)
			}
			t.Log(time.Since(start), err)
		})
	}
}

// A `where` names a variable, and not a label or a text that is spelled like it.
func TestNames(t *testing.T) {
	for where, want := range map[string]bool{
		`"amd64" in architectures`: true, `region == "eu" || architectures.exists(a, a == "arm64")`: true,
		`size(architectures) == 1`: true, `tomorrow && "amd64" in architectures`: true, // a newer broker's variable
		``: false, `"architectures" == region`: false, `labels.architectures == "a"`: false, `labels["architectures"] == "a"`: false,
		`architectures ==`: false,
	} {
		if is := match.Names(where, "architectures"); is != want {
			t.Errorf("%q: %t", where, is)
		}
	}
}

// FuzzWhere: every expression is compiled and evaluated soon, and its error is safe to show.
func FuzzWhere(f *testing.F) {
	for _, seed := range []string{
		`region == "eu" && "amd64" in architectures`, `zones.all(a, zones.exists(b, a != b && has(labels.x)))`,
		`int(labels.floor) / 0 > 1 ? true : size(zones) > 1`, `labels["a"].matches("(a|b)*c") || capacity.cpu >= 1.5e3`,
		`[[1, 2], [3]].exists_one(x, 3 in x)`, `{"a": zones}["a"][0] == "a"`, `"\x1b" == r'\x1b' || b'a' != b"b"`, "((((", `region.startsWith("`,
	} {
		f.Add(seed)
	}
	c := lends("cpu", "8")
	c.Properties = api.Properties{Region: "eu", Labels: map[string]string{"floor": "3", "a": strings.Repeat("ab", 100)}}
	for i := range 100 {
		c.Properties.Zones = append(c.Properties.Zones, fmt.Sprint("zone-", i))
	}
	view := viewOf(f, map[string]cluster{"amber": c})
	f.Fuzz(func(t *testing.T, expression string) {
		engine := match.New()
		start := time.Now()
		a, err := engine.Ask("rome", api.Request{Resources: of("cpu", "1"), Where: expression})
		if err != nil {
			if len(err.Error()) > 1000 || strings.ContainsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("not an error for people: %q", err)
			}
		} else if message := engine.Evaluate(view, a, now).Clusters[0].Message; len(message) > 1000 ||
			strings.ContainsFunc(message, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("not a message for people: %q", message)
		}
		if took := time.Since(start); took > 2*time.Second { // it is milliseconds; the machine may be busy
			t.Errorf("%q took %s", expression, took)
		}
	})
}
