package cli

import (
	"cmp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/money"
	"github.com/bourse-dev/bourse/internal/payload"
)

// parsed is the value of a flag that set parses. The flag has no default.
type parsed struct {
	kind string // as help shows it
	set  func(text string) error
}

func (p parsed) Set(text string) error { return p.set(text) }
func (p parsed) Type() string          { return p.kind }
func (p parsed) String() string        { return "" }

// checkGiven reports a flag that is given with an empty text, which would count as left out. Commands that run
// programs take such flags: manifests set them. Errors: Invalid with the flag.
func checkGiven(cmd *cobra.Command) (failed error) {
	group := cmd
	for group.HasParent() && group.GroupID == "" {
		group = group.Parent()
	}
	if group.GroupID != "use" && group.GroupID != "start" {
		return nil
	}
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		empty := map[string]string{"string": "", "stringSlice": "[]", "stringToString": "[]"}
		none, ofText := empty[f.Value.Type()]
		if _, checked := f.Value.(parsed); f.Changed && !checked && ofText && f.Value.String() == none {
			failed = cmp.Or(failed, emptyValue(f.Name))
		}
	})
	return failed
}

// emptyValue is the error of a flag that is given with an empty text.
func emptyValue(flag string) error {
	return api.Invalid("--"+flag, "an empty text is not a value").
		Fix("give a value, or leave it out: a variable of your shell may be unset")
}

// amountVar adds a flag for the amount of one resource.
func amountVar(f *pflag.FlagSet, to *api.Resources, name, resource, usage string) {
	f.Var(parsed{"string", func(text string) error {
		return putAmount(to, "--"+name, resource, "", text)
	}}, name, usage)
}

// amountsVar adds a flag for amounts by resource: NAME=AMOUNT,...
func amountsVar(f *pflag.FlagSet, to *api.Resources, name, usage string) {
	f.Var(parsed{"stringToString", func(text string) error { return readAmounts(to, "--"+name, text) }}, name, usage)
}

// readAmounts reads NAME=AMOUNT,... into to. Errors: Invalid with the flag.
func readAmounts(to *api.Resources, flag, text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		name, amount, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok {
			return api.Invalid(flag, "%.80q is not NAME=AMOUNT", pair).Fix("write cpu=16,memory=64Gi")
		}
		field, label := flag, name+"="
		if flag == "--resource" {
			field, label = flag+" "+name, ""
		}
		if err := putAmount(to, field, name, label, amount); err != nil {
			return err
		}
	}
	return nil
}

func putAmount(to *api.Resources, flag, name, label, text string) error {
	q, err := readAmount(flag, name, label, text)
	if err != nil {
		return err
	}
	if *to == nil {
		*to = api.Resources{}
	}
	(*to)[resourceName(name)] = q
	return nil
}

// readAmount reads the amount of one resource. Errors: Invalid with the flag, also for less than
// 1Mi of memory or storage: its unit is missing. label stands before the amount in the error.
func readAmount(flag, name, label, text string) (resource.Quantity, error) {
	if text == "" {
		return resource.Quantity{}, api.Invalid(flag, "%san empty text is not an amount", label).
			Fix("give an amount, or leave it out: a variable of your shell may be unset")
	}
	q, err := payload.ParseQuantity(text)
	if err != nil || q.Sign() < 0 {
		e := api.Invalid(flag, "%s%.40q is not an amount", label, text)
		if like := likely(text); like != "" {
			return q, e.Fix("write %s", like)
		}
		return q, e.Fix("write amounts as Kubernetes does: 4, 500m, 8Gi")
	}
	inBytes := name == "memory" || strings.HasSuffix(name, "storage")
	if inBytes && q.Sign() > 0 && q.Value() < 1<<20 {
		return q, api.Invalid(flag, "%s%q is %s bytes", label, text, q.String()).
			Fix("did you mean %sGi?", strings.TrimRightFunc(text, unicode.IsLetter))
	}
	return q, nil
}

// likely returns the amount in bytes that a text likely means, empty if it means none: 8Gi for 8gb.
func likely(text string) string {
	number := strings.TrimRightFunc(text, unicode.IsLetter)
	unit := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(text[len(number):]), "B"), "I")
	like := number + unit + "i"
	if _, err := strconv.ParseUint(strings.Replace(number, ".", "", 1), 10, 64); err != nil || !payload.IsQuantity(like) {
		return ""
	}
	return like
}

// priceVar adds a flag for a price, such as 3EUR/hour.
func priceVar(f *pflag.FlagSet, to **api.Price, name, usage string) {
	f.Var(parsed{"string", func(text string) (err error) {
		*to, err = money.Read("--"+name, text)
		return err
	}}, name, usage)
}

// durationVar adds a flag for a duration. Unlike that of pflag it takes days: 1d, 1d12h.
func durationVar(f *pflag.FlagSet, p *time.Duration, name string, value time.Duration, usage string) {
	*p = value
	f.Var((*durationValue)(p), name, usage)
}

// optionalDurationVar adds a flag for a duration of a payload. It is nil for 0.
func optionalDurationVar(f *pflag.FlagSet, to **metav1.Duration, name, usage string) {
	f.Var(parsed{"duration", func(text string) error {
		d, err := payload.ParseDuration(text)
		if *to = nil; d != 0 {
			*to = &metav1.Duration{Duration: d}
		}
		return err
	}}, name, usage)
}

type durationValue time.Duration

func (d *durationValue) Set(text string) (err error) {
	*(*time.Duration)(d), err = payload.ParseDuration(text)
	return err
}

func (d *durationValue) Type() string { return "duration" }

func (d *durationValue) String() string {
	if *d == 0 {
		return "" // pflag prints no default
	}
	return time.Duration(*d).String()
}
