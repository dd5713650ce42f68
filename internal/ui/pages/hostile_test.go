package pages_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"
	"golang.org/x/net/html"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// filler gives each text of a page's data, wherever it stands, a hostile value, but for states: a page shows most of what
// it has for some of these alone.
type filler struct {
	text  string
	state api.State
}

// fill sets all that v has, as deep as depth says.
func (f filler) fill(v reflect.Value, depth int) {
	if !v.CanSet() || depth == 0 {
		return
	}
	switch of := v.Addr().Interface().(type) {
	case *time.Time:
		*of = now.Add(time.Hour)
		return
	case *metav1.Time:
		*of = metav1.NewTime(now.Add(time.Hour))
		return
	case *metav1.MicroTime:
		*of = metav1.NewMicroTime(now.Add(time.Hour))
		return
	case *resource.Quantity:
		*of = resource.MustParse("7")
		return
	case *json.RawMessage:
		*of = json.RawMessage(`{}`)
		return
	case *api.State:
		*of = f.state
		return
	case *metav1.ConditionStatus:
		*of = metav1.ConditionFalse
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(3)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth-1)
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), depth-1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i), depth-1)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key, depth-1)
		f.fill(value, depth-1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	}
}

// filled returns a value of which each text is hostile.
func filled[T any](f filler) (out T) {
	f.fill(reflect.ValueOf(&out).Elem(), 14)
	return out
}

// borrowed is a list of which each text is hostile.
func (f filler) borrowed() pages.Borrowed {
	l := filled[pages.Listed](f)
	l.Requests = slices.Values([]client.RequestStatus{filled[client.RequestStatus](f), filled[client.RequestStatus](f)})
	b := pages.NewBorrowed(l)
	b.Failed = map[string]*api.Error{f.text: filled[*api.Error](f)}
	return b
}

// page is a page with its panels.
type page struct {
	name   string
	panels []string
	of     func(pages.View) templ.Component
}

// hostilePages are all pages, with nothing but hostile texts.
func hostilePages(f filler) []page {
	overview, everything, deals := filled[pages.Overview](f), filled[pages.Everything](f), filled[pages.Deals](f)
	overview.Borrowed, everything.Borrowed, deals.Borrowed = f.borrowed(), f.borrowed(), f.borrowed()
	clusters := []api.Envelope[api.Cluster]{filled[api.Envelope[api.Cluster]](f)}
	others, found := filled[pages.Others](f), filled[pages.Found](f)
	others.Clusters = pages.Neighbours(clusters)
	everything.Others, everything.Listed[0].Payload.Seller = others, f.text
	found.Keep(others.Clusters)
	found.Wish.Wrong, found.Wish.Asked = nil, true
	known := others
	known.Failed, known.NoPeers = nil, nil
	federation := filled[pages.Federation](f)
	federation.Trade = pages.NewTrade()
	federation.Trade.Add(clusters)
	return []page{
		{"Home", nil, func(v pages.View) templ.Component { return pages.Home(v, overview) }},
		{"Borrowing", nil, func(v pages.View) templ.Component { return pages.Borrowing(v, overview.Borrowed) }},
		{"Request", []string{"extend", "resize", "release", "confirm"}, func(v pages.View) templ.Component {
			return pages.Request(v, filled[pages.Asked](f))
		}},
		{"VirtualNodePool", []string{"stop", "admit", "exclude"}, func(v pages.View) templ.Component {
			return pages.VirtualNodePool(v, filled[pages.Pool](f))
		}},
		{"Find", []string{"review", "propose"}, func(v pages.View) templ.Component { return pages.Find(v, found) }},
		{"Lending", []string{"policy", "approve", "refuse"}, func(v pages.View) templ.Component {
			return pages.Lending(v, filled[pages.Lends](f))
		}},
		{"Offers", []string{"new", "edit", "sale", "counter", "refuse", "withdraw"}, func(v pages.View) templ.Component {
			return pages.Offers(v, filled[pages.Sales](f))
		}},
		{"Contracts", []string{"reclaim"}, func(v pages.View) templ.Component { return pages.Contracts(v, deals) }},
		{"Clusters", nil, func(v pages.View) templ.Component { return pages.Clusters(v, others) }},
		{"Clusters that are known", nil, func(v pages.View) templ.Component { return pages.Clusters(v, known) }},
		{"Cluster", []string{"trust", "suspend", "resume", "evict"}, func(v pages.View) templ.Component {
			return pages.Cluster(v, filled[pages.Other](f))
		}},
		{"Brokers", []string{"add", "disable", "enable"}, func(v pages.View) templ.Component { return pages.Brokers(v, filled[pages.Market](f)) }},
		{"Search", nil, func(v pages.View) templ.Component { return pages.Search(v, everything) }},
		{"Federation", []string{"token", "suspend", "resume", "revoke", "approve", "cap", "delete-token"}, func(v pages.View) templ.Component {
			return pages.OperatorPage(v, federation)
		}},
	}
}

// Whatever text another cluster, a tenant or an API server sends, and wherever it stands, each page and each panel shows
// it as text: it makes no element, no address that runs, and no command, and hides nothing.
func TestEachPageShowsHostileTextsAsText(t *testing.T) {
	texts := map[string]string{
		"markup":  hostile,
		"address": "javascript:alert(1)//\u200b\u2066",
		"name":    strings.Repeat("a", 253),
		"shell":   "$(touch owned) `touch owned`; touch owned #'",
	}
	for kind, text := range texts {
		states := []api.State{api.Pending, api.Held, api.Active, api.Failed, api.State(text)}
		if kind == "markup" {
			states = states[2:] // it is 10 kB long
		}
		for _, state := range states {
			f := filler{text, state}
			for _, p := range hostilePages(f) {
				for _, panel := range append(p.panels, "", text) {
					v := filled[pages.View](f)
					v.Prefix, v.Path, v.Now, v.Operator = "/s/0", "/"+url.PathEscape(text), now, p.name == "Federation"
					v.Banners[0].Fix, v.Banners[1].Fix, v.Done = "bourse doctor", "", text // these commands are ours
					v.Query, v.Typed, v.Theme = url.Values{"panel": {panel}, "id": {text}, "q": {""}}, nil, "dark"
					name := fmt.Sprintf("%s, panel %.20q, %s, %.10q", p.name, panel, kind, state)
					checkAllHostile(t, name, text, render(t, pages.Layout(v, p.of(v))))
				}
			}
		}
	}
}

// checkAllHostile checks the HTML of a page of which each text is hostile.
func checkAllHostile(t *testing.T, name, text, page string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	shown := false
	for n := range root.Descendants() {
		switch n.Type {
		case html.ElementNode:
			if n.Data == "img" || n.Data == "script" && !slices.ContainsFunc(n.Attr, func(a html.Attribute) bool {
				return a.Key == "src" && strings.HasPrefix(a.Val, "/s/0/static/")
			}) {
				t.Errorf("%s: there is an element %s", name, n.Data)
			}
			for _, a := range n.Attr {
				checkAttribute(t, name, n.Data, a)
			}
		case html.TextNode:
			if n.Parent.Data == "textarea" { // what a user edits is whole
				continue
			}
			shown = shown || strings.Contains(n.Data, text[:4])
			if longest := longestWord(n.Data); longest > 4100 {
				t.Errorf("%s: a text in %s has %d characters in a word", name, n.Parent.Data, longest)
			}
			if i := strings.IndexFunc(n.Data, hides); i >= 0 {
				t.Errorf("%s: a text in %s hides something: %.80q", name, n.Parent.Data, n.Data[max(0, i-40):])
			}
		}
	}
	if !shown {
		t.Errorf("%s: the text is nowhere", name)
	}
}

// hides reports whether a character is invisible, or turns the direction of what follows.
func hides(c rune) bool { return api.Invisible(c) && c != '\n' && c != '\t' }

func longestWord(text string) (longest int) {
	for word := range strings.FieldsSeq(text) {
		longest = max(longest, len(word))
	}
	return longest
}

// checkAttribute checks an attribute of an element: no address leads elsewhere, and what is copied runs nothing but the
// command that it begins with.
func checkAttribute(t *testing.T, name, element string, a html.Attribute) {
	t.Helper()
	switch {
	case strings.HasPrefix(a.Key, "on") || a.Key == "style" && strings.ContainsAny(a.Val, "<;"):
		t.Errorf("%s: %s has %s=%.80q", name, element, a.Key, a.Val)
	case (a.Key == "href" || a.Key == "src" || a.Key == "action") && !strings.HasPrefix(a.Val, "/s/0/") && !strings.HasPrefix(a.Val, "#"):
		t.Errorf("%s: %s leads to %.80q", name, element, a.Val)
	case a.Key == "data-copy":
		if bare := unquoted(a.Val); strings.ContainsAny(bare, "<>$`;#") || strings.IndexFunc(a.Val, hides) >= 0 {
			t.Errorf("%s: what is copied runs more: %.120q", name, a.Val)
		}
	}
}

// unquoted returns what of a command stands in no single quotes.
func unquoted(command string) string {
	var out strings.Builder
	quoted := false
	for i := 0; i < len(command); i++ {
		switch c := command[i]; {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '\\':
			i++
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

// A text is cut, and what hides something is named, also where a buffer ends amid a character. What a user edits stays.
func TestVisibleText(t *testing.T) {
	long := strings.Repeat("日本é", 5_000)
	page := render(t, pages.Layout(view("/", ""), templ.Raw("<p title=\"\u202e\">é\u202e&lt;\u200b\n</p><textarea>\u202e"+long+
		"</textarea><pre>\u2066"+long+"</pre><p>"+long+"</p>")))
	has(t, page, "<p title=\"\u202e\">éU+202E&lt;U+200B\n</p><textarea>\u202e"+long+"</textarea><pre>U+2066"+long+"</pre><p>日本é")
	if strings.Count(page, long) != 2 || !strings.Contains(page, "…</p>") {
		t.Error("a long text is not cut")
	}
}
