package pages

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
)

// What another cluster writes is cut, and hides nothing.
func TestForeign(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                   "plain",
		"two\nlines":              "two lines",
		"a\u202eb":                "aU+202Eb",
		"zero\u200bwidth":         "zeroU+200Bwidth",
		"\x1b[31mred":             "U+001B[31mred",
		strings.Repeat("ü", 301):  strings.Repeat("ü", 300) + " …",
		strings.Repeat("x", 9000): strings.Repeat("x", 300) + " …",
	} {
		if got := Foreign(text); got != want {
			t.Errorf("%.20q is shown as %q, want %q", text, got, want)
		}
	}
}

func TestAmountsHaveUnits(t *testing.T) {
	for _, test := range []struct{ name, amount, want string }{
		{"cpu", "4", "4 CPU"},
		{"cpu", "500m", "0.5 CPU"},
		{"cpu", "30625m", "30.62 CPU"},
		{"memory", "8Gi", "8 GiB"},
		{"memory", "1500Mi", "1.46 GiB"},
		{"memory", "204595Mi", "199 GiB"},
		{"memory", "-20545Mi", "-20.1 GiB"},
		{"memory", "512", "512 B"},
		{"ephemeral-storage", "2Ti", "2 TiB"},
		{"nvidia.com/gpu", "2", "2 GPU"},
		{"example.com/fpga", "1", "1 example.com/fpga"},
	} {
		if got := Amount(test.name, resource.MustParse(test.amount)); got != test.want {
			t.Errorf("%s of %s is %q, want %q", test.amount, test.name, got, test.want)
		}
	}
}

// A shell reads back what Quote was given.
func TestQuote(t *testing.T) {
	for want, args := range map[string][]string{
		`bourse --cpu 4`:              {"bourse", "--cpu", "4"},
		`--where 'region == "eu"'`:    {"--where", `region == "eu"`},
		`'it'\''s'`:                   {"it's"},
		`''`:                          {""},
		`'$(rm)' 'a;b' '~' '*'`:       {"$(rm)", "a;b", "~", "*"},
		`team-a,team-b milan/web/one`: {"team-a,team-b", "milan/web/one"},
	} {
		if got := Quote(args...); got != want {
			t.Errorf("%q is quoted as %s, want %s", args, got, want)
		}
	}
}

func TestReadWish(t *testing.T) {
	read := func(query string) Wish {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		return ReadWish(q, "team")
	}
	w := read("cpu=4&memory=8Gi&gpu=1&for=90m&where=region+%3D%3D+%22eu%22&maxPrice=3EUR/hour&offload=team,+shop&strategy=cheap")
	if w.Wrong != nil || !w.Asked {
		t.Fatalf("it is wrong: %v", w.Wrong)
	}
	const want = `bourse -n team reserve --cpu 4 --memory 8Gi --gpu 1 --for 1h30m0s --where 'region == "eu"' --strategy cheap ` +
		`--max-price 3EUR/hour --offload team,shop`
	if got := w.Command(); got != want {
		t.Errorf("the command is\n%s, want\n%s", got, want)
	}
	if bought := read("buy=milan/web/small&units=2&cpu=4"); bought.Create.Request.Purchase == nil ||
		bought.Create.Request.Purchase.Units != 2 || len(bought.Create.Request.Resources) > 0 {
		t.Errorf("it buys %+v", bought.Create.Request)
	}
	for query, field := range map[string]string{"cpu=x": "cpu", "memory=8GB": "memory", "cpu=1&for=soon": "for", "cpu=1&for=-1h": "for",
		"cpu=1&maxPrice=cheap": "maxPrice", "buy=milan": "buy", "buy=a/b/c&units=0": "buy", "cpu=1e99": "resources.cpu"} {
		if w := read(query); w.Wrong == nil || w.Wrong.Field != field || w.Wrong.Remedy == "" {
			t.Errorf("%s: wrong is %v, want the field %s and a remedy", query, w.Wrong, field)
		}
	}
	if w := read(""); w.Asked || w.Wrong != nil {
		t.Errorf("an empty form asks: %+v", w)
	}
}

// A line that needs attention comes first, and a filter that matches nothing leaves nothing.
func TestOrderOfWhatIsBorrowed(t *testing.T) {
	var requests []client.RequestStatus
	for name, state := range map[string]api.State{"fine": api.Active, "waits": api.Pending, "failed": api.Rejected} {
		r := api.Envelope[api.RequestStatus]{ID: "team/" + name}
		r.Payload.Status.State = state
		requests = append(requests, r)
	}
	b := NewBorrowed(Listed{Requests: slices.Values(requests)})
	var order []string
	for _, r := range b.matching(View{}) {
		order = append(order, r.Name)
	}
	if got := strings.Join(order, " "); got != "failed waits fine" {
		t.Errorf("the order is %s", got)
	}
	if rows := b.matching(View{Query: url.Values{"q": {"FAI"}}}); len(rows) != 1 || rows[0].Name != "failed" {
		t.Errorf("a search finds %v", rows)
	}
	if rows := b.matching(View{Query: url.Values{"state": {"Held"}}}); len(rows) != 0 {
		t.Errorf("a state that none has finds %v", rows)
	}
}

// What is bound and ends within a day is named on the first page, also before its pods run. What was reserved for less
// than four days is named in its last quarter.
func TestWhatEndsSoonIsNamed(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for state, want := range map[api.State]bool{api.Active: true, api.Reserved: true, api.Held: false} {
		r := api.Envelope[api.RequestStatus]{ID: "team/web"}
		r.Payload.Status.State, r.Payload.Status.Until = state, &metav1.Time{Time: now.Add(time.Hour)}
		needs := Overview{Borrowed: NewBorrowed(Listed{Requests: slices.Values([]client.RequestStatus{r})})}.needs(View{Now: now})
		if named := len(needs) == 1 && needs[0].Title == "Request “web” ends soon"; named != want {
			t.Errorf("%s: the first page names %v", state, needs)
		}
	}
	for began, want := range map[time.Duration]bool{-2 * time.Hour: false, -4 * time.Hour: true, -100 * time.Hour: true} {
		if got := (borrowedRow{Began: now.Add(began), Ends: now.Add(time.Hour)}).endsSoon(now); got != want {
			t.Errorf("began %s, ends in 1h: %t", began, got)
		}
	}
	if (borrowedRow{Began: now.Add(-1000 * time.Hour), Ends: now.Add(25 * time.Hour)}).endsSoon(now) {
		t.Error("what ends in more than a day is named")
	}
}

// Whose reservation somebody else ended reads it on the first page. What a user ended is no news.
func TestWhatOthersEndedIsNamed(t *testing.T) {
	for reason, want := range map[api.Reason]bool{api.ReasonRevokedByProvider: true, api.ReasonReclaimed: true,
		api.ReasonMemberRemoved: true, api.ReasonReleased: false, api.ReasonEnded: false} {
		r := api.Envelope[api.RequestStatus]{ID: "team/web"}
		r.Payload.Status.State, r.Payload.Status.Provider = api.Released, "milan"
		r.Payload.Status.Message = "Released; milan ended it; its pods are Pending again"
		r.Payload.Status.Conditions = []metav1.Condition{{Type: api.ConditionReserved, Status: metav1.ConditionFalse, Reason: string(reason)}}
		needs := Overview{Borrowed: NewBorrowed(Listed{Requests: slices.Values([]client.RequestStatus{r})})}.needs(View{})
		if named := len(needs) == 1 && needs[0].Title == "Request “web” ended early" &&
			strings.Contains(needs[0].Text, "milan ended it"); named != want {
			t.Errorf("%s: the first page names %v", reason, needs)
		}
	}
}

func TestDistances(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for after, want := range map[time.Duration]string{time.Hour: "in 60m", -5 * time.Minute: "5m ago", 30 * time.Second: "in 30s"} {
		if got := In(now.Add(after), now); got != want {
			t.Errorf("%v is %q, want %q", after, got, want)
		}
	}
	if got := In(time.Time{}, now); got != "–" {
		t.Errorf("no time is %q", got)
	}
}
