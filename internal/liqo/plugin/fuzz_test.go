package plugin

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/bourse-dev/bourse/internal/market"
)

// Whatever a plugin answers, it is refused, or comes to amounts that the market can reckon with.
func FuzzAnswer(f *testing.F) {
	field := func(n protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), v)
	}
	quantity := append(field(1, []byte("cpu")), field(2, field(1, []byte("1500m")))...)
	f.Add([]byte{})
	f.Add(field(1, append(field(1, []byte("cpu")), field(2, []byte("2"))...)))
	f.Add(field(1, append(field(1, []byte("memory")), field(2, []byte(`"1Gi"`))...)))
	f.Add(field(1, quantity))
	f.Add(field(1, append(field(1, quantity), field(2, []byte("gpu"))...)))
	f.Add(field(1, append(field(1, []byte("memory")), field(2, field(1, []byte("99999999999E")))...)))
	f.Fuzz(func(t *testing.T, answer []byte) {
		r, err := resourcesIn(answer)
		if err != nil {
			return
		}
		amounts, err := market.Have("resources", r)
		if err != nil {
			t.Fatalf("%v: %v", r, err)
		}
		if amounts.Negative() {
			t.Fatalf("%v", amounts)
		}
		_, _ = clusterIn(answer)
	})
}
