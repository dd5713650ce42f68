package match_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/match"
)

// asked is a question of a member: what it wants to buy, or to borrow without buying, or what it
// looks for in the catalog.
type asked struct {
	By      string       `json:"by"`
	Request *api.Request `json:"request,omitempty"`
	Ask     *api.Request `json:"ask,omitempty"`
	Look    *look        `json:"look,omitempty"`
}

type look struct {
	api.CatalogQuery
	For metav1.Duration `json:"for"`
}

// TestTrade reads the catalogue of purchases and searches: each file is a federation, questions by
// name, and the answers.
func TestTrade(t *testing.T) {
	golden(t, "testdata/trade", []string{"clusters.yaml", "questions.yaml", "answers.yaml"},
		func(t *testing.T, clusters, questions []byte) []byte {
			var federation map[string]cluster
			var asks map[string]asked
			if err := yaml.UnmarshalStrict(clusters, &federation); err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict(questions, &asks); err != nil {
				t.Fatal(err)
			}
			engine, view := match.New(), viewOf(t, federation)
			answers := map[string]any{}
			for name, ask := range asks {
				decide := func(a match.Ask) string {
					ranking := engine.Decide(view, a, now)
					if len(ranking.Providers) > 0 {
						return fmt.Sprint("served by ", ranking.Providers)
					}
					if miss := ranking.Decision.NearestMiss; miss != nil {
						return "served by nobody: " + miss.Message
					}
					return "served by nobody"
				}
				switch {
				case ask.Request != nil:
					a, sale, err := engine.Buy(view, ask.By, *ask.Request, now)
					if err != nil {
						answers[name] = err.Error()
						continue
					}
					answers[name] = fmt.Sprintf("%d of %s %s: %s cpu in %s of %s, %s", sale.Units, sale.Offer, sale.Plan,
						a.Request.Resources.Cpu(), a.Request.Pool, a.Request.Target, decide(a))
					continue
				case ask.Ask != nil:
					a, err := engine.Ask(ask.By, *ask.Ask)
					if err != nil {
						t.Fatal(err)
					}
					answers[name] = decide(a)
					continue
				}
				ask.Look.CatalogQuery.For = ask.Look.For.Duration
				lines := []string{}
				card := view.Listing(ask.By).Card()
				for _, found := range engine.Catalog(view, &card, ask.Look.CatalogQuery, now, 1000) {
					for _, p := range found.Plans {
						lines = append(lines, fmt.Sprintf("%s/%s: %d left, %s, %.2f",
							found.Key(), p.Name, p.Remaining, p.Price.Text(), float64(p.Nanos)/1e9))
					}
				}
				answers[name] = lines
			}
			out, err := yaml.Marshal(answers)
			if err != nil {
				t.Fatal(err)
			}
			return out
		})
}
