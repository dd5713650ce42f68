package match

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/bourse-dev/bourse/api"
)

// Liqo promises nothing between minor versions: agents do not peer clusters whose versions differ in it. A
// consumer that names no Liqo can reserve anywhere: nothing is peered for it. With a legacy provider admins
// peer by hand.

// minor is a version's major and minor in one number, 0 where it has none.
func minor(card *api.Card) int32 {
	if card == nil || card.Properties.Liqo == "" {
		return 0
	}
	v, err := version.ParseSemantic(card.Properties.Liqo)
	if err != nil {
		return 0
	}
	return int32(v.Major()*1000 + v.Minor())
}

func noLiqo(q *question) bool { return q.liqo == 0 }

func sameLiqo(q *question, c *candidate) reason {
	return when(c.liqo != q.liqo && !c.card.Legacy, otherLiqo)
}

func explainLiqo(q *question, c *candidate, _ reason) string {
	if c.liqo == 0 {
		return "has no Liqo that is known"
	}
	return fmt.Sprintf("runs Liqo %.40q, the asker %.40q: other minor versions do not peer", c.card.Properties.Liqo,
		q.card.Properties.Liqo)
}
