package pages

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/contract"
	"github.com/bourse-dev/bourse/internal/due"
)

// Deals are the contracts of a cluster.
type Deals struct {
	All    []api.Envelope[api.Deal]
	Failed *api.Error
	// Borrowed says which request bought what.
	Borrowed Borrowed
}

// dealRow is one contract.
type dealRow struct {
	ID          string
	Side        side   // that of this cluster
	Other       string // the other side; empty if the side is unknown
	Parties     string // both, in words
	Plan        string
	Units       int64
	State       string
	Tone        Tone
	Why         string
	Begins      time.Time
	Ends        time.Time
	Over        bool
	Price       string
	Due, Cost   string
	Size        string
	Reclaimable bool
}

func dealRowOf(d api.Envelope[api.Deal], self string) dealRow {
	s := d.Payload.Status
	t := s.Terms
	row := dealRow{ID: d.Payload.Spec.Reservation, Side: sideOf(t.Seller, self), Plan: t.Offer + "/" + t.Plan, Units: t.Units,
		State: string(s.State), Tone: toneOf(s.State), Begins: t.Begins.Time, Ends: due.End(s).Time,
		Over: s.State.Over(), Price: PriceText(t.Price), Due: cmp.Or(d.Payload.Due, "free"),
		Cost: cmp.Or(s.Cost, "free"), Size: Amounts(t.Resources)}
	switch row.Side {
	case seller:
		row.Other, row.Parties = t.Buyer, "sold to "+t.Buyer
		row.Reclaimable = s.Digest != "" && s.Reclaimed == nil && !row.Over
	case buyer:
		row.Other, row.Parties = t.Seller, "bought from "+t.Seller
	case unknown:
		row.Parties = t.Buyer + " buys from " + t.Seller
	}
	switch {
	case meta.IsStatusConditionTrue(s.Conditions, api.ConditionBreached):
		row.Tone, row.Why = Bad, string(s.Reason)+": a breach of the contract"
	case s.Reclaimed != nil && !row.Over:
		row.Tone, row.Why = Warn, "the seller takes it back, with the notice of its plan"
	case row.Over:
		row.Tone, row.Why = Off, string(s.Reason)
	}
	return row
}

// takenBack says what happens if a contract is taken back now.
func takenBack(d api.Deal, v View) string {
	text := " is notified at once. The contract ends "
	if notice := contract.Notice(d); notice > 0 {
		end := v.Now.Add(notice)
		if until := due.End(d.Status).Time; until.Before(end) {
			end = until
		}
		text += "after the notice of its plan, " + hours(notice) + ": at " + Full(end)
	} else {
		text += "after the notice of its plan"
	}
	text += ". Its pods here are deleted then"
	if used := Amounts(d.Used); len(d.Used) > 0 {
		text += ": they use " + used + " now"
	}
	return text + ". This cannot be undone."
}

// rows returns the contracts that match the query, those that end first at the top, and below them those that are over.
func (d Deals) rows(v View) []dealRow {
	text, state := strings.ToLower(strings.TrimSpace(v.Query.Get("q"))), v.Query.Get("state")
	wanted := map[string]side{"sold": seller, "bought": buyer}[v.Query.Get("side")]
	var out []dealRow
	for _, deal := range d.All {
		row := dealRowOf(deal, v.Cluster)
		if wanted != unknown && row.Side != unknown && row.Side != wanted || state == "over" && !row.Over ||
			state == "" && row.Over || !row.has(text) {
			continue
		}
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b dealRow) int {
		switch {
		case a.Over != b.Over:
			return map[bool]int{true: 1, false: -1}[a.Over]
		case a.Over:
			return cmp.Or(b.Ends.Compare(a.Ends), cmp.Compare(a.ID, b.ID))
		}
		return cmp.Or(a.Ends.Compare(b.Ends), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// has reports whether a row has a text, which is in lower case.
func (r dealRow) has(text string) bool {
	return strings.Contains(strings.ToLower(r.ID+" "+cmp.Or(r.Other, r.Parties)+" "+r.Plan), text)
}

// total is what was bought from and sold to one cluster so far, in one currency.
type total struct{ Other, Bought, Sold string }

// totals returns the sums of all contracts that still exist, by cluster and currency; none if the sides are unknown.
func (d Deals) totals(v View) []total {
	by := map[string][]api.Envelope[api.Deal]{}
	var others []string
	for _, deal := range d.All {
		other := dealRowOf(deal, v.Cluster).Other
		if by[other] == nil {
			others = append(others, other)
		}
		by[other] = append(by[other], deal)
	}
	slices.Sort(others)
	var out []total
	for _, other := range others {
		for _, s := range due.SumUp(by[other], v.Cluster) {
			out = append(out, total{Other: other, Bought: moneyText(s.Bought, s.Currency) + " " + s.Currency,
				Sold: moneyText(s.Sold, s.Currency) + " " + s.Currency})
		}
	}
	return out
}

// since returns when the oldest contract that still exists began.
func (d Deals) since() time.Time {
	var first time.Time
	for _, deal := range d.All {
		if begins := deal.Payload.Status.Terms.Begins.Time; first.IsZero() || begins.Before(first) {
			first = begins
		}
	}
	return first
}

// deal returns a contract by the ID of its reservation; nil if there is none.
func (d Deals) deal(id string) *api.Envelope[api.Deal] {
	for i := range d.All {
		if d.All[i].Payload.Spec.Reservation == id {
			return &d.All[i]
		}
	}
	return nil
}

// contractColumns are the columns of the file for a spreadsheet.
var contractColumns = []string{"contract", "role", "other", "plan", "units", "resources", "begins", "until", "state",
	"reason", "price", "due", "inAll"}

// CSV returns the contracts of the cluster self as lines of a file for a spreadsheet, with a head. No cell is a formula.
func (d Deals) CSV(self string) [][]string {
	out := [][]string{contractColumns}
	for _, deal := range d.All {
		row, s := dealRowOf(deal, self), deal.Payload.Status
		line := []string{row.ID, string(row.Side), row.Other, s.Terms.Seller + "/" + row.Plan, strconv.FormatInt(row.Units, 10), row.Size,
			row.Begins.UTC().Format(time.RFC3339), row.Ends.UTC().Format(time.RFC3339), row.State, string(s.Reason), row.Price,
			deal.Payload.Due, s.Cost}
		for i := range line {
			line[i] = cell(line[i])
		}
		out = append(out, line)
	}
	return out
}

// cell returns a text that no spreadsheet takes for a formula.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
