package cli

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/money"
	"github.com/bourse-dev/bourse/internal/payload"
)

// planKeys are the keys of a plan that are no resources.
var planKeys = []string{"price", "quantity", "units", "min", "max", "notice", "dedicated", "pool"}

// resourceKeys are the resources of Kubernetes whose names have no domain.
var resourceKeys = []string{"cpu", "memory", "pods", "storage", "ephemeral-storage"}

// parsePlan reads "small:cpu=2,memory=4Gi,price=0.10EUR/hour,quantity=5". Errors: Invalid at --plan.
func parsePlan(text string) (api.Plan, error) {
	name, rest, ok := strings.Cut(text, ":")
	wrong := func(what string) error {
		return api.Invalid("--plan", "%s: %s", text, what).
			Fix("write small:cpu=2,memory=4Gi,price=0.10EUR/hour,quantity=5,units=1-8,min=1h,max=720h,pool=general")
	}
	if !ok || name == "" {
		return api.Plan{}, wrong("it has no name, or no resources")
	}
	p := api.Plan{Name: name, Resources: api.Resources{}}
	for _, part := range strings.Split(rest, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return p, wrong(part + " has no value")
		}
		var err error
		switch key {
		case "price":
			p.Price, err = money.Read("price", value)
		case "quantity":
			p.Quantity, err = strconv.ParseInt(value, 10, 64)
		case "units":
			p.Units, err = parseUnits(value)
		case "min":
			p.MinDuration, err = parseDuration(value)
		case "max":
			p.MaxDuration, err = parseDuration(value)
		case "notice":
			p.Notice, err = parseDuration(value)
		case "dedicated":
			p.Dedicated, err = strconv.ParseBool(value)
		case "pool":
			p.Pool = value
		default:
			var q resource.Quantity
			if alike := similar(key, planKeys); len(alike) > 0 && !slices.Contains(resourceKeys, key) &&
				!strings.Contains(key, "/") {
				return p, wrong(key + " is no key; did you mean " + strings.Join(alike, " or ") + "?")
			}
			q, err = readAmount("", key, "", value)
			p.Resources[resourceName(key)] = q
		}
		if _, ok := errors.AsType[*api.Error](err); err != nil && !ok {
			err = errors.New("it is not " + planValues[key])
		}
		if err != nil {
			return p, wrong(part + ": " + api.WithoutCode(err.Error()))
		}
	}
	return p, nil
}

// planValues says what the value of a key of a plan is.
var planValues = map[string]string{"quantity": "a number",
	"units": "a number or a range of numbers", "dedicated": "true or false",
	"min": "a duration such as 8h or 30d", "max": "a duration such as 8h or 30d", "notice": "a duration such as 10m"}

func parseDuration(text string) (*metav1.Duration, error) {
	d, err := payload.ParseDuration(text)
	return &metav1.Duration{Duration: d}, err
}

func parseUnits(text string) (*api.Units, error) {
	from, to, ranged := strings.Cut(text, "-")
	low, err := strconv.ParseInt(from, 10, 64)
	if err != nil || !ranged {
		return &api.Units{Min: low, Max: low}, err
	}
	high, err := strconv.ParseInt(to, 10, 64)
	return &api.Units{Min: low, Max: high}, err
}
