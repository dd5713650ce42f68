// Package pages turns what the objects and the agent of a cluster say into HTML. Each page answers one question. A page
// is a pure function: from its data, the URL's query and the time to HTML; package ui reads the data.
//
// Start with view.go and layout.templ, which every page has, then borrowing.go and request.go.
package pages

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
)

// View is the frame of a page: who looks at which cluster, and what each page shows around its content.
type View struct {
	// Prefix is before each path. Path and Query are those of this page.
	Prefix, Path string
	Query        url.Values
	Title        string
	Theme        string // "light" or "dark"; empty: the browser's
	Cluster      string // its ID; empty: it is not known, because the agent does not answer and no object names it
	Operator     bool   // the operator of a broker looks: there is no cluster
	// Context and Server are those of the kubeconfig, User is the name that the API server knows.
	Context, Server, User string
	// AgentNamespace is that of the cluster's agent.
	AgentNamespace string
	// Namespaces are those that the page shows. Empty: all.
	Namespaces []string
	// Namespace is the one that the page is about, and May is of. Empty: it is about all of Namespaces.
	Namespace string
	May       Rights
	Now       time.Time // the agent's
	AsOf      time.Time // when the oldest answer on the page was given
	// Banners say what is away or stale, and what still holds.
	Banners []Banner
	// Problems are those that the agent has found. Nil: they are not known, or not for the user.
	Problems []api.Problem
	// NoCluster, NoProblems and NoRights say that these are on their way. Until then the user may try every act.
	NoCluster, NoProblems, NoRights *api.Error
	// Typing says that the page has a form that the user may be filling in, besides that of an open panel.
	Typing bool
	// loading says that something of the page is on its way.
	loading bool
	// Done is what the user's last act did; a second line is to copy. Empty: no act led here.
	Done string
	// Failed is why the user's last act changed nothing, and Typed what its form said.
	Failed *api.Error
	Typed  url.Values
	// Preview is what the form would change that the user looks at, before it is carried out: a PolicyReview, or an
	// OfferReview.
	Preview any
}

// AnyRights are those of a user of whom the API server has said nothing yet: each act tries.
var AnyRights = Rights{Request: true, ChangeRequests: true, ReleaseRequests: true, Propose: true, ChangePools: true,
	AskCluster: true, Lend: true, Approve: true, Sell: true, EditPeers: true, EditBrokers: true}

// Rights are what the user may do in the cluster, as the API server says.
type Rights struct {
	Request         bool // create ResourceRequests in the namespace that the page is about
	ChangeRequests  bool // change ResourceRequests there
	ReleaseRequests bool // delete ResourceRequests there
	Propose         bool // create Proposals where the pages make them
	ChangePools     bool // change VirtualNodePools
	AskCluster      bool // ask the agent for the whole cluster
	Lend            bool // change SharingPolicies
	Approve         bool // answer requests of other clusters
	Sell            bool // change Offers
	EditPeers       bool
	EditBrokers     bool
}

// Banner is one sentence above a page.
type Banner struct {
	Tone Tone
	Text string
	Fix  string // a command; empty: there is none
}

// NoBroker says that the broker does not answer, or refuses this cluster. why is the error; without it, the problems name
// the cause.
func NoBroker(why string, refuses bool) Banner {
	text := "The broker is away"
	if refuses {
		text = "The broker refuses this cluster"
	}
	if why != "" {
		text += ": " + why
	}
	return Banner{Tone: Warn, Fix: "bourse brokers", Text: text + ". What is reserved stays; nothing new is found."}
}

// Tone is how a state is shown: by a colour, and a shape of its own.
type Tone string

// The tones.
const (
	OK   Tone = "ok"
	Wait Tone = "wait"
	Warn Tone = "warn"
	Bad  Tone = "bad"
	Off  Tone = "off"
)

// To returns the address of a page. Each part is one segment of the path.
func (v View) To(parts ...string) templ.SafeURL {
	path := v.Prefix
	for _, part := range parts {
		path += "/" + url.PathEscape(part)
	}
	if len(parts) == 0 {
		path += "/"
	}
	return templ.SafeURL(path)
}

// With returns the address of this page with another value in its query. An empty value leaves it out.
func (v View) With(name, value string) templ.SafeURL {
	return v.with(func(query url.Values) { set(query, name, value) })
}

// set sets a value of a query, or removes one that is empty.
func set(query url.Values, name, value string) {
	if query.Set(name, value); value == "" {
		query.Del(name)
	}
}

// with returns the address of this page with a query that change changes. It leaves out what an act did.
func (v View) with(change func(url.Values)) templ.SafeURL {
	query := maps.Clone(v.Query)
	if query == nil {
		query = url.Values{}
	}
	change(query)
	query.Del("done")
	at := v.Prefix + v.Path
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	return templ.SafeURL(at)
}

// typed returns what the user typed into a field of a form that is shown again, else its first value.
func (v View) typed(field, first string) string {
	if v.Typed.Has(field) {
		return v.Typed.Get(field)
	}
	return first
}

// still reports whether the page answers a form: it has no address by which it could be read again.
func (v View) still() bool { return v.Failed != nil || v.Preview != nil }

// Panel returns the name of the panel that is open, such as "release".
func (v View) Panel() string { return v.Query.Get("panel") }

// Has reports whether the agent has found a problem of a kind.
func (v View) Has(kind health.Kind) bool {
	return slices.ContainsFunc(v.Problems, func(p api.Problem) bool { return p.Code == kind.Code })
}

// Worst returns the tone of the worst problem, and how many errors and warnings there are.
func (v View) Worst() (Tone, int) {
	tone, n := OK, 0
	for _, p := range v.Problems {
		switch p.Severity {
		case api.SeverityError:
			tone, n = Bad, n+1
		case api.SeverityWarning:
			if n++; tone != Bad {
				tone = Warn
			}
		}
	}
	return tone, n
}

// Name is how a sentence names the cluster.
func (v View) Name() string { return cmp.Or(v.Cluster, "this cluster") }

// side is what a cluster is in a deal.
type side string

// The sides. The side is unknown if the name of the cluster is.
const (
	unknown side = ""
	buyer   side = "buyer"
	seller  side = "seller"
)

// object is one in the agent's namespace, as a command names it.
func (v View) object(name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: v.AgentNamespace, Name: name}}
}

// lists returns the command of a program that lists what the page shows: in all namespaces, or in the first of several.
func (v View) lists(program string, words ...string) string {
	if len(v.Namespaces) == 0 {
		return Quote(slices.Concat([]string{program}, words, []string{"-A"})...)
	}
	return Quote(slices.Concat([]string{program, "-n", v.Namespaces[0]}, words)...)
}

// sideOf returns the side of the cluster self in a deal that names its seller.
func sideOf(nameOfSeller, self string) side {
	switch self {
	case "":
		return unknown
	case nameOfSeller:
		return seller
	}
	return buyer
}

// here returns the address of this page below the prefix, without what an act did.
func (v View) here() string { return strings.TrimPrefix(string(v.With("done", "")), v.Prefix) }

// navigation returns the pages of the menu.
func (v View) navigation() []menuItem {
	if v.Operator {
		return []menuItem{{"Federation", "", "h"}}
	}
	return navigation
}

// menuItem is a page of the menu.
type menuItem struct{ Name, Path, Key string }

var navigation = []menuItem{
	{"Home", "", "h"},
	{"Borrowing", "borrowing", "b"},
	{"Find capacity", "find", "f"},
	{"Lending", "lending", "l"},
	{"Offers", "offers", "o"},
	{"Contracts", "contracts", "c"},
	{"Clusters", "clusters", "u"},
	{"Brokers", "brokers", "r"},
}

// at reports whether a page of the menu is the one that is shown, or above it.
func (v View) at(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(v.Path, "/"), "/")
	return first == path || first == "requests" && path == "borrowing" || first == "pools" && path == "borrowing"
}

func (v View) to(path string) templ.SafeURL {
	if path == "" {
		return v.To()
	}
	return v.To(path)
}

// where says where the page looks: "all namespaces", or their names.
func (v View) where() string { return cmp.Or(strings.Join(v.Namespaces, ", "), "all namespaces") }

// showing is a sentence about the namespaces that the pages show: the first few of many.
func (v View) showing() string {
	const most = 5
	if n := len(v.Namespaces); n > most {
		return fmt.Sprintf("Showing namespaces %s and %d more", strings.Join(v.Namespaces[:most], ", "), n-most)
	}
	if len(v.Namespaces) == 1 {
		return "Showing namespace " + v.where()
	}
	return "Showing namespaces " + v.where()
}

// who says what the user may do, and where: "requester in team-a".
func (v View) who() string {
	if v.Operator {
		return "operator"
	}
	if IsLoading(v.NoRights) {
		return "rights are loading"
	}
	if v.Namespace != "" {
		return v.May.role() + " in " + Foreign(v.Namespace)
	}
	return v.May.role() + " in " + v.where()
}

// role names the role of Bourse that has the user's rights.
func (r Rights) role() string {
	switch {
	case r.Lend && r.Approve && r.Request:
		return "admin"
	case r.Lend && r.Approve:
		return "provider admin"
	case r.Request:
		return "requester"
	case r.AskCluster:
		return "viewer"
	}
	return "reader"
}

// place says where an act is carried out.
func (v View) place() string {
	switch {
	case v.Operator:
		return "At the broker"
	case v.Cluster == "":
		return "In the cluster of " + Foreign(v.Server)
	}
	return "In cluster " + Foreign(v.Cluster)
}

// NotFound is shown for a page that does not exist.
func NotFound(v View) templ.Component { return notFound(v) }
