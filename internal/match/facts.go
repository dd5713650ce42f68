package match

import (
	"errors"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
)

// How many compiled expressions are remembered. Each `where` may have a result for every cluster: with 10,000
// clusters about 0.6 MB each. VirtualNodePools ask again and again, 300 different expressions in a large
// federation. There is at most one `allow` for each provider.
const (
	rememberWhere = 400
	rememberAllow = 4_096
)

// whereLanguage is that of Request.Where: the properties of a provider, and the amounts of its requested pool.
func whereLanguage() *language {
	l := newLanguage("where", rememberWhere, append(cardVariables(""),
		variable{"capacity", amountsType, func(f *facts) ref.Val { return quantities(f.pools[f.pool].Capacity) }},
		variable{"allocatable", amountsType, func(f *facts) ref.Val { return quantities(f.pools[f.pool].Allocatable) }},
		variable{"shared", amountsType, func(f *facts) ref.Val { return quantities(f.pools[f.pool].Shared) }},
		variable{"uptime", cel.DoubleType, func(f *facts) ref.Val { return share(f.uptime) }},
		variable{"honoured", cel.DoubleType, func(f *facts) ref.Val { return share(f.honoured) }},
	))
	l.missing["uptime"] = errors.New("uptime is not known before the broker has seen a cluster for 24h")
	l.missing["honoured"] = errors.New("honoured is not known before a cluster has made five promises in 30 days")
	return l
}

// allowLanguage is that of Terms.Allow: the properties of the consumer, and its request.
func allowLanguage() *language {
	return newLanguage("allow", rememberAllow, append(cardVariables("consumer."),
		variable{"request.resources", amountsType, func(f *facts) ref.Val { return quantities(f.ask.Size) }},
		variable{"request.pool", cel.StringType, func(f *facts) ref.Val { return text(f.ask.Request.Pool) }},
		variable{"request.seconds", cel.IntType, func(f *facts) ref.Val { return types.Int(f.ask.Duration.Seconds()) }},
	))
}

func cardVariables(prefix string) []variable {
	return []variable{
		{prefix + "cluster", cel.StringType, func(f *facts) ref.Val { return text(f.card.Cluster) }},
		{prefix + "region", cel.StringType, func(f *facts) ref.Val { return text(f.card.Properties.Region) }},
		{prefix + "zones", textsType, func(f *facts) ref.Val { return texts(f.card.Properties.Zones) }},
		{prefix + "architectures", textsType, func(f *facts) ref.Val { return texts(f.card.Properties.Architectures) }},
		{prefix + "gpus", textsType, func(f *facts) ref.Val { return texts(f.card.Properties.GPUs) }},
		{prefix + "kubernetes", cel.StringType, func(f *facts) ref.Val { return text(f.card.Properties.Kubernetes) }},
		{prefix + "liqo", cel.StringType, func(f *facts) ref.Val { return text(f.card.Properties.Liqo) }},
		{prefix + "storageClasses", textsType, func(f *facts) ref.Val { return texts(f.card.Properties.StorageClasses) }},
		{prefix + "labels", cel.MapType(cel.StringType, cel.StringType), func(f *facts) ref.Val {
			return types.NewStringStringMap(types.DefaultTypeAdapter, f.card.Properties.Labels)
		}},
	}
}

// variable is a variable of expressions. A nil value is unknown. A map always has a value, and its missing
// keys are unknown.
type variable struct {
	name  string
	kind  *cel.Type
	value func(*facts) ref.Val
}

// facts are the variables of one evaluation. A variable is made when the expression reads it.
type facts struct {
	language *language
	card     *api.Card // of the provider in `where`, of the consumer in `allow`
	// pools are the provider's in `where`, pool the requested one.
	pools map[string]market.MeasuredPool
	pool  string
	// uptime and honoured are the provider's in `where`, in parts per million.
	uptime, honoured int64
	ask              *Ask // in `allow`
}

// ResolveName implements cel.Activation.
func (f *facts) ResolveName(name string) (any, bool) {
	v, ok := f.language.variables[name]
	if !ok {
		return nil, false
	}
	if value := v.value(f); value != nil {
		return value, true
	}
	return types.WrapErr(f.language.missing[name]), true // a new one, because CEL writes to it
}

// Parent implements cel.Activation.
func (f *facts) Parent() cel.Activation { return nil }

var (
	textsType   = cel.ListType(cel.StringType)
	amountsType = cel.MapType(cel.StringType, cel.DoubleType)
)

func text(s string) ref.Val {
	if s == "" {
		return nil
	}
	return types.String(s)
}

// share converts parts per million to a share of 1.
func share(millionths int64) ref.Val {
	if millionths < 0 { // market.UnknownUptime, market.UnknownRecord
		return nil
	}
	return types.Double(float64(millionths) / million)
}

func texts(list []string) ref.Val {
	if len(list) == 0 {
		return nil
	}
	return types.NewStringList(types.DefaultTypeAdapter, list)
}

// quantities returns amounts as a CEL map: cores of "cpu", units of every other resource.
func quantities(list amounts.List) ref.Val {
	values := make(map[string]float64, len(list))
	for _, a := range list {
		values[a.Resource] = float64(a.Value)
		if a.Resource == "cpu" {
			values[a.Resource] /= 1000
		}
	}
	return types.NewMap(types.DefaultTypeAdapter, values)
}
