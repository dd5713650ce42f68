package match

import (
	"cmp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
)

// Bounds of a request.
const (
	minDuration   = time.Minute
	maxProperties = 32
	maxText       = 316 // characters of a property's name or value
	maxExclude    = 64
	maxPrefer     = 16
)

// Ask is a valid request of a consumer. [Engine.Ask] makes it. It is immutable, and may be decided any number
// of times.
type Ask struct {
	Consumer string
	// Request has its defaults filled in.
	Request  api.Request
	Size     amounts.List
	Duration time.Duration
	// Pod is the pod shape that some node must have free. Empty: none.
	Pod amounts.List

	// Kept is a cluster whose capacity is kept for another, waiting request. Refused are the clusters that
	// refused this request. Both may be empty.
	Kept    string
	Refused []string
	// Passing counts the refusals of this request by each cluster for a cause that passes by itself. Such a
	// cluster is not in Refused.
	Passing map[string]int

	// dedicated says that the plan gives the whole pool to its consumer.
	dedicated bool
	where     *program
}

// Ask checks a request and fills in its defaults: duration 24h, pool general, strategy
// balance. Errors: Invalid with the field.
func (e *Engine) Ask(consumer string, r api.Request) (Ask, error) {
	a := Ask{Consumer: consumer}
	if err := market.ValidCluster("consumer", consumer); err != nil {
		return Ask{}, err
	}
	var err error
	if a.Size, err = amounts.ParseRequest("resources", r.Resources); err != nil {
		return Ask{}, err
	}
	if err := amounts.CheckWhole("resources", r.Resources); err != nil {
		return Ask{}, err
	}
	if a.Duration, err = durationOf(r); err != nil {
		return Ask{}, err
	}
	if len(r.PodShape) > 0 {
		if a.Pod, err = podOf(r, a.Size); err != nil {
			return Ask{}, err
		}
	}
	r.Duration = &metav1.Duration{Duration: a.Duration}
	r.Pool, r.Strategy = cmp.Or(r.Pool, api.GeneralPool), cmp.Or(r.Strategy, api.Balance)
	if err := checkWait(r); err != nil {
		return Ask{}, err
	}
	if err := checkSplit(r); err != nil {
		return Ask{}, err
	}
	if strategies[r.Strategy] == nil {
		return Ask{}, api.Invalid("strategy", "%.80q is not a strategy", string(r.Strategy)).
			Fix("use balance, pack, reliable or cheap")
	}
	if err := checkPrice(r, a.Duration); err != nil {
		return Ask{}, err
	}
	if r.Network != "" && r.Network != api.NetworkNone && r.Network != api.NetworkWireGuard {
		return Ask{}, api.Invalid("network", "%.80q is not a network", string(r.Network)).Fix("use wireguard or none")
	}
	if err := checkNames(r); err != nil {
		return Ask{}, err
	}
	if err := checkProperties(r.Properties); err != nil {
		return Ask{}, err
	}
	if r.Where != "" {
		if a.where, err = e.where.compile(r.Where, r.Pool); err != nil {
			return Ask{}, err
		}
	}
	a.Request = r
	return a, nil
}

// Again returns the ask of a waiting reservation.
func (e *Engine) Again(r *market.Reservation) (Ask, error) {
	a, err := e.Ask(r.Consumer, *r.Request)
	if err != nil {
		return Ask{}, err
	}
	a.dedicated = r.Dedicated()
	for _, t := range r.Tried {
		switch t.Reason {
		case api.ReasonInsufficient, api.ReasonNoAnswer: // these may have changed
		case api.ReasonNotConfirmed: // the consumer itself did not sign
		case api.ReasonUnreachable, api.ReasonInUse, api.ReasonNamespacesFull, api.ReasonLedgerFull:
			if a.Passing == nil {
				a.Passing = map[string]int{}
			}
			a.Passing[t.Provider]++
		default:
			a.Refused = append(a.Refused, t.Provider)
		}
	}
	return a, nil
}

func checkWait(r api.Request) error {
	if r.Wait != nil && (r.Wait.Duration < market.MinWait || r.Wait.Duration > market.MaxWait) {
		return api.Invalid("wait", "%s is out of bounds", r.Wait.Duration).
			Fix("wait for 1s to 720h, or leave it out")
	}
	if r.Priority < -market.MaxPriority || r.Priority > market.MaxPriority {
		return api.Invalid("priority", "%d is out of bounds", r.Priority).Fix("give -%d to %[1]d", market.MaxPriority)
	}
	return nil
}

// podOf returns the requested pod shape, which must be a part of size.
func podOf(r api.Request, size amounts.List) (amounts.List, error) {
	pod, err := amounts.ParseRequest("podShape", r.PodShape)
	if err != nil {
		return nil, err
	}
	for _, need := range pod {
		if all := size.Of(need.Resource); need.Value > all {
			return nil, api.Invalid("podShape."+need.Resource, "a pod of %s is more than the whole request, %s",
				quantity(need.Resource, need.Value), quantity(need.Resource, all)).
				Fix("ask for more in resources, or for a smaller pod")
		}
	}
	return pod, nil
}

func durationOf(r api.Request) (time.Duration, error) {
	d := api.DurationOf(r.Duration)
	if d < minDuration || d > api.LongestDuration {
		return 0, api.Invalid("duration", "%s is out of bounds", d).Fix("ask for 1m to 8760h")
	}
	return d, nil
}

func checkNames(r api.Request) error {
	for _, single := range []struct{ field, name string }{
		{"pool", r.Pool}, {"target", r.Target}, {"relendKey", r.RelendKey},
	} {
		if single.name == "" {
			continue
		}
		if err := market.ValidCluster(single.field, single.name); err != nil {
			return err
		}
	}
	for _, list := range []struct {
		field string
		names []string
		most  int
	}{{"exclude", r.Exclude, maxExclude}, {"prefer", r.Prefer, maxPrefer}, {"stickTo", r.StickTo, maxPrefer}} {
		if len(list.names) > list.most {
			return api.Invalid(list.field, "names %d clusters", len(list.names)).Fix("name at most %d", list.most)
		}
		for _, name := range list.names {
			if err := market.ValidCluster(list.field, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkProperties(properties map[string]string) error {
	if len(properties) > maxProperties {
		return api.Invalid("properties", "names %d properties", len(properties)).Fix("name at most %d", maxProperties)
	}
	for name, value := range properties {
		for _, text := range []string{name, value} {
			if utf8.RuneCountInString(text) > maxText || !printable(text) {
				return api.Invalid("properties", "%.80q cannot be on a cluster", text).
					Fix("use at most %d printable characters", maxText)
			}
		}
	}
	return nil
}

// printable reports whether a text may be stored, and shown in a terminal.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}
