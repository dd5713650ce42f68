package explain

import (
	"fmt"
	"strings"

	"github.com/bourse-dev/bourse/api"
)

// Waterfall is a decision: how all clusters became those that qualify, and which of these was chosen.
type Waterfall struct {
	// Parts is in how many equal parts the request was tried, 0 for none. Size is that of a part, empty if unknown.
	Parts int    `json:"parts,omitempty"`
	Size  string `json:"size,omitempty"`
	// Considered is the number of all clusters, Qualify that of the clusters that no filter eliminated.
	Considered int         `json:"considered"`
	Falls      []Fall      `json:"falls"`
	Qualify    int         `json:"qualify"`
	Candidates []Candidate `json:"candidates"` // the best, best first
	// Miss is the eliminated cluster that came closest; nil: there is none.
	Miss *api.Miss `json:"nearestMiss,omitempty"`
}

// Fall is one step of a waterfall: how many clusters it removed, and how many stay.
type Fall struct {
	// Filter and Reason are empty for clusters that the consumer may not see.
	Filter  string `json:"filter,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Removed int    `json:"removed"`
	Left    int    `json:"left"`
	Text    string `json:"text"`
}

// Candidate is a cluster that qualifies. Score and those of Scores are in parts per million.
type Candidate struct {
	api.Scored
	Chosen bool   `json:"chosen,omitempty"`
	Buys   string `json:"buys,omitempty"` // empty: no purchase
}

// Decision explains a decision. part is the size of a part where the decision is about one; nil: it is not known.
func Decision(d api.Decision, part api.Resources) Waterfall {
	w := Waterfall{Considered: d.Considered, Falls: []Fall{}, Qualify: d.Candidates, Candidates: []Candidate{},
		Miss: d.NearestMiss}
	if d.Parts > 1 {
		w.Parts, w.Size = d.Parts, Sizes(part)
	}
	left := d.Considered
	if d.Hidden > 0 {
		left -= d.Hidden
		text := Count(d.Hidden, "cluster") + " not visible to you"
		w.Falls = append(w.Falls, Fall{Removed: d.Hidden, Left: left, Text: text})
	}
	for _, e := range d.Eliminated {
		left -= e.Count
		text := fmt.Sprintf("%d eliminated by %s (%s)", e.Count, e.Filter, e.Reason)
		if e.Reason == "Aggregator" {
			text += ", unless --aggregated"
		}
		w.Falls = append(w.Falls, Fall{e.Filter, e.Reason, e.Count, left, text})
	}
	for _, s := range d.Top {
		c := Candidate{Scored: s, Chosen: s.Cluster == d.Chosen}
		if s.Bought != nil {
			c.Buys = Purchase(*s.Bought)
		}
		w.Candidates = append(w.Candidates, c)
	}
	return w
}

// Text returns a candidate in one line, without its place.
func (c Candidate) Text() string {
	var parts []string
	for _, by := range c.Scores {
		parts = append(parts, by.Scorer+" "+Points(by.Value))
	}
	if c.Buys != "" {
		parts = append(parts, c.Buys)
	}
	mark := ""
	if c.Chosen {
		mark = "  <- chosen"
	}
	return fmt.Sprintf("%s  %s  (%s)%s", c.Cluster, Points(c.Score), strings.Join(parts, ", "), mark)
}

// Lines returns the waterfall as text. The numbers add up.
func (w Waterfall) Lines() []string {
	var lines []string
	qualify := "qualify"
	if w.Parts > 1 {
		of := ""
		if w.Size != "" {
			of = " of " + w.Size
		}
		lines = append(lines, fmt.Sprintf("in %d equal parts%s, each on another cluster", w.Parts, of))
		qualify = "with room for a part"
	}
	lines = append(lines, fmt.Sprintf("%s considered, %d %s", Count(w.Considered, "cluster"), w.Qualify, qualify))
	for _, f := range w.Falls {
		lines = append(lines, "  "+f.Text)
	}
	for i, c := range w.Candidates {
		lines = append(lines, fmt.Sprintf("  %d. %s", i+1, c.Text()))
	}
	if w.Miss != nil {
		lines = append(lines, fmt.Sprintf("  nearest miss: %s, by %s: %s", w.Miss.Cluster, w.Miss.Filter, w.Miss.Message))
	}
	return lines
}

// Purchase describes what would be bought.
func Purchase(b api.Bought) string {
	text := fmt.Sprintf("buys %d of %s", b.Units, b.Plan)
	if b.Cost == "" {
		return text + ", free"
	}
	return text + ", " + b.Cost
}

// NoCandidate returns the error for a request that no cluster, or too few, can serve. whole is what it asks for, and
// added ends its sentence.
func NoCandidate(d api.Decision, whole api.Resources, added string) *api.Error {
	if d.Parts > 1 {
		return api.Errorf(api.CodeNoCandidate, "too few clusters have room for one of %d equal parts of %s%s", d.Parts,
			Sizes(Part(whole, d.Parts)), added)
	}
	return api.Errorf(api.CodeNoCandidate, "no cluster can serve the request%s", added)
}
