package match

import (
	"reflect"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/bourse-dev/bourse/internal/market"
)

// quantities are amounts as a map of CEL: cores of "cpu", units of every other resource. They are looked up
// where they are, because making a map of each cluster's was a third of what a new expression costs; whatever
// else is asked of a map, one is made for.
type quantities market.Amounts

var _ traits.Mapper = quantities(nil)

// Find implements traits.Mapper.
func (q quantities) Find(key ref.Val) (ref.Val, bool) {
	if name, ok := key.(types.String); ok {
		for i := range q {
			if q[i].Resource == string(name) {
				return types.Double(inUnits(q[i])), true
			}
		}
	}
	return nil, false
}

// Contains implements traits.Container.
func (q quantities) Contains(key ref.Val) ref.Val {
	_, ok := q.Find(key)
	return types.Bool(ok)
}

// Size implements traits.Sizer.
func (q quantities) Size() ref.Val { return types.Int(len(q)) }

// Get implements traits.Indexer.
func (q quantities) Get(key ref.Val) ref.Val { return q.asMap().Get(key) }

// Iterator implements traits.Iterable.
func (q quantities) Iterator() traits.Iterator { return q.asMap().Iterator() }

// ConvertToNative implements ref.Val.
func (q quantities) ConvertToNative(t reflect.Type) (any, error) { return q.asMap().ConvertToNative(t) }

// ConvertToType implements ref.Val.
func (q quantities) ConvertToType(t ref.Type) ref.Val { return q.asMap().ConvertToType(t) }

// Equal implements ref.Val.
func (q quantities) Equal(other ref.Val) ref.Val { return q.asMap().Equal(other) }

// Type implements ref.Val.
func (q quantities) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (q quantities) Value() any { return q.asMap().Value() }

func (q quantities) asMap() traits.Mapper {
	all := make(map[string]float64, len(q))
	for _, a := range q {
		all[a.Resource] = inUnits(a)
	}
	return types.NewMap(types.DefaultTypeAdapter, all)
}

func inUnits(a market.Amount) float64 {
	if a.Resource == "cpu" {
		return float64(a.Value) / 1000
	}
	return float64(a.Value)
}
