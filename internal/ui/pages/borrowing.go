package pages

import (
	"cmp"
	"iter"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/due"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/money"
)

// Borrowed is what a cluster borrows, or asks for, as lines of a list.
type Borrowed struct {
	rows []borrowedRow // what needs attention first
	sum  api.Resources // of the reservations that count
	// Deals are all contracts that the user may list, also those of what the cluster sold.
	Deals []api.Envelope[api.Deal]
	// buyers has what bought each of them, by the ID of its reservation.
	buyers map[string]purchaser
	// Failed says what could not be read: a kind of object and why.
	Failed map[string]*api.Error
}

// purchaser is a request that bought something, or the VirtualNodePool that made the request.
type purchaser struct {
	Pool            bool
	Namespace, Name string
}

// Listed is all that the user may list of what a cluster borrows.
type Listed struct {
	Requests iter.Seq[client.RequestStatus]
	Pools    []api.Envelope[api.KnownVirtualNodePool]
	Deals    []api.Envelope[api.Deal]
	// Faults has what keeps pods of a reservation from running at its provider, and Uses what its pods use, by
	// NAMESPACE/RESERVATION.
	Faults map[string]metav1.Condition
	Uses   map[string]Use
	Now    time.Time // the agent's
	// AgentNamespace has the requests of VirtualNodePools.
	AgentNamespace string
}

// Use is what pods use of what a provider grants.
type Use struct{ Granted, Used api.Resources }

// NewBorrowed makes the lines of the requests and of the VirtualNodePools that have some of them.
func NewBorrowed(l Listed) Borrowed {
	b := Borrowed{sum: api.Resources{}, Deals: l.Deals, Failed: map[string]*api.Error{}, buyers: map[string]purchaser{}}
	ofPools, bought := map[string]string{}, map[string]api.ContractStatus{}
	for _, p := range l.Pools {
		b.rows = append(b.rows, poolRow(p))
		for _, provider := range p.Payload.Status.Providers {
			ofPools[l.AgentNamespace+"/"+provider.Request] = p.ID
		}
	}
	for _, d := range l.Deals {
		bought[d.Payload.Spec.Reservation] = d.Payload.Status
	}
	for r := range l.Requests {
		s := r.Payload.Status
		if s.State.Counts() {
			add(b.sum, s.Resources)
		}
		row, pool := requestRow(r), ofPools[r.ID]
		by := purchaser{pool != "", row.Namespace, cmp.Or(pool, row.Name)}
		for _, id := range explain.Reservations(s) {
			if _, is := bought[id]; is {
				b.buyers[id] = by
			}
		}
		if by.Pool {
			continue
		}
		if fault, has := l.Faults[row.Namespace+"/"+s.Reservation]; has && (row.Tone == OK || row.Refused) {
			row.Refused, row.Tone, row.Why, row.Fault = false, Warn, api.WithoutCode(fault.Message), fault.Type
		}
		row.use(l.Uses, s)
		row.Cost = hourly(bought, s, l.Now)
		b.rows = append(b.rows, row)
	}
	b.rows = slices.Clip(b.rows)
	rank := map[Tone]int{Bad: 0, Warn: 1, Wait: 2, OK: 3, Off: 4}
	slices.SortStableFunc(b.rows, func(a, b borrowedRow) int {
		return cmp.Or(cmp.Compare(rank[a.Tone], rank[b.Tone]), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return b
}

// borrowedRow is one line of the page.
type borrowedRow struct {
	Pool            bool
	Namespace, Name string
	About           string // what a problem names as its subject
	Provider        []string
	State           string
	Tone            Tone
	Why             string // one sentence; empty: nothing is wrong
	Size, Use       string
	Used, Reserved  float64 // of CPUs; Use says all, and is empty if it is not known
	Began, Ends     time.Time
	Cost            string // in an hour; empty: it was not bought, or is over
	Fault           string // the condition by which its pods cannot run there
	Early           bool   // somebody else ended it before its time
	Limited         bool   // a VirtualNodePool has less than its pods need
	Unserved        bool   // pods wait that a VirtualNodePool cannot serve
	Confirm         bool   // it is held until the user confirms it
	Refused         bool   // a change that it asks for is refused, and nothing worse is wrong
}

// matching returns the lines that match what the query says.
func (b Borrowed) matching(v View) []*borrowedRow {
	text, state := strings.ToLower(v.Query.Get("q")), v.Query.Get("state")
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	var out []*borrowedRow
	for i := range b.rows {
		r := &b.rows[i]
		if (state == "" || r.State == state) && (has(r.Namespace+"/"+r.Name) || slices.ContainsFunc(r.Provider, has)) {
			out = append(out, r)
		}
	}
	return out
}

// states returns the states of all lines, for the filter.
func (b Borrowed) states() []string {
	seen := map[string]bool{}
	for _, r := range b.rows {
		seen[r.State] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func poolRow(p api.Envelope[api.KnownVirtualNodePool]) borrowedRow {
	s := p.Payload.Status
	row := borrowedRow{Pool: true, Name: p.ID, About: "VirtualNodePool " + p.ID, State: "Serves", Tone: OK, Size: Amounts(s.Reserved), Cost: s.Cost}
	for _, provider := range s.Providers {
		row.Provider = append(row.Provider, provider.Name)
		if row.Ends.IsZero() || provider.Until.Time.Before(row.Ends) {
			row.Ends = provider.Until.Time
		}
	}
	if c := mainFault(s.Conditions); c != nil {
		row.State, row.Tone, row.Why, row.Limited = c.Reason, Warn, c.Message, c.Type == api.ConditionLimited
	}
	unserved, _ := s.Pending.Unserved()
	switch {
	case row.Tone != OK:
	case unserved > 0:
		row.State, row.Tone, row.Why, row.Unserved = "Pods wait", Warn, s.Why, true
	case len(s.Providers) == 0:
		row.State, row.Tone = "Idle", Off
	}
	row.Used, row.Reserved = s.Used.Cpu().AsApproximateFloat64(), s.Reserved.Cpu().AsApproximateFloat64()
	row.Use = Amounts(s.Used)
	return row
}

// mainFault returns the condition of a pool that says best what is wrong with it: Limited is the cause of others, and
// Ready sums all up. Nil: nothing is wrong.
func mainFault(conditions []metav1.Condition) *metav1.Condition {
	rank := func(c metav1.Condition) int {
		return map[string]int{api.ConditionLimited: -1, api.ConditionReady: 1}[c.Type]
	}
	faults := slices.DeleteFunc(slices.Clone(conditions), func(c metav1.Condition) bool { return !api.IsFaultOfPool(c) })
	if len(faults) == 0 {
		return nil
	}
	slices.SortStableFunc(faults, func(a, b metav1.Condition) int { return cmp.Compare(rank(a), rank(b)) })
	return &faults[0]
}

func requestRow(r client.RequestStatus) borrowedRow {
	s := r.Payload.Status
	row := borrowedRow{About: "reservation " + s.Reservation, Tone: toneOf(s.State), Size: Amounts(sizeOf(r)), Began: at(s.Began),
		Ends: at(s.Until)}
	row.Namespace, row.Name, _ = strings.Cut(r.ID, "/")
	row.Confirm = s.State == api.Held && r.Payload.Request.Confirm
	if p := r.Payload.Request.Purchase; p != nil && len(s.Resources) == 0 {
		row.Size = explain.Count(int(max(p.Units, 1)), "unit") + " of " + Foreign(p.Offer+"/"+p.Plan)
	}
	if s.Provider != "" {
		row.Provider = []string{s.Provider}
	}
	for _, part := range s.Parts {
		row.Provider = append(row.Provider, part.Provider)
	}
	slices.Sort(row.Provider)
	row.Provider = slices.Compact(row.Provider)
	if row.State, row.Why = explain.Request(s); row.State == "Refused" {
		row.Tone = Bad
	}
	if row.Why == s.Provider+" is bound until "+row.Ends.UTC().Format(time.RFC3339) { // the line says so in its columns
		row.Why = ""
	}
	for _, c := range s.Conditions {
		if c.Type == api.ConditionReady && c.Status == "False" && s.State == api.Active {
			row.Tone, row.Why = Warn, cmp.Or(c.Message, s.Message)
		}
		if c.Type == api.ConditionReserved && s.State.Over() && api.Reason(c.Reason).EndedByOthers() {
			row.Tone, row.Early = Warn, true
		}
	}
	if c := changeAsked(r); c != nil && c.Refused && row.Tone != Warn && row.Tone != Bad {
		row.Tone, row.Refused = Warn, true
		row.Why = "its change is refused, and " + explain.KeepsAsking + ": " + c.Message
	}
	return row
}

// use adds what the pods of all reservations of a request use.
func (r *borrowedRow) use(of map[string]Use, s api.ResourceRequestStatus) {
	granted, used, known := api.Resources{}, api.Resources{}, false
	for _, id := range explain.Reservations(s) {
		if u, has := of[r.Namespace+"/"+id]; has {
			known = true
			add(granted, u.Granted)
			add(used, u.Used)
		}
	}
	if known {
		r.Use, r.Used, r.Reserved = Amounts(used), used.Cpu().AsApproximateFloat64(), granted.Cpu().AsApproximateFloat64()
	}
}

// hourly returns what all reservations of a request cost in the hour from now on, such as "0.64 EUR/h"; "free" for
// nothing. Amounts of two currencies are not added. It is empty if none was bought, or all are over.
func hourly(bought map[string]api.ContractStatus, s api.ResourceRequestStatus, now time.Time) string {
	sums, free := map[string]*big.Rat{}, false
	for _, id := range explain.Reservations(s) {
		c, is := bought[id]
		cost, currency := due.Hour(c, now)
		switch {
		case !is || c.State.Over():
		case cost == nil: // it is free, or has begun to end
			price, err := money.Parse("price", c.Terms.Price)
			free = free || err == nil && price.Free()
		case sums[currency] == nil:
			sums[currency] = cost
		default:
			sums[currency].Add(sums[currency], cost)
		}
	}
	var out []string
	for _, currency := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, moneyText(sums[currency], currency)+" "+currency+"/h")
	}
	if free && len(out) == 0 {
		return "free"
	}
	return strings.Join(out, ", ")
}

// sizable are amounts that each form of a size has, so that what is taken away can come back.
var sizable = api.Resources{"cpu": {}, "memory": {}, "nvidia.com/gpu": {}}

// amountIn returns an amount of a size as Kubernetes writes it; empty: it has none.
func amountIn(size api.Resources, name ResourceName) string {
	if q, has := size[name]; has {
		return q.String()
	}
	return ""
}

// sizeOf returns what is in force, else what is asked for.
func sizeOf(r client.RequestStatus) api.Resources {
	if len(r.Payload.Status.Resources) > 0 {
		return r.Payload.Status.Resources
	}
	return r.Payload.Request.Resources
}
