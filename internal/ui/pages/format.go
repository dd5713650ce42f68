package pages

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/payload"
)

// longestForeign is how many characters of a text of another cluster a page shows.
const longestForeign = 300

// Foreign returns a text that another cluster wrote as a page may show it: cut, and with control characters and
// those that change the direction of text as U+XXXX.
func Foreign(text string) string {
	n := 0
	for i := range text {
		if n++; n > longestForeign {
			return visible(text[:i]) + " …"
		}
	}
	return visible(text)
}

// visible returns a text with control characters and those that change the direction of text as U+XXXX.
func visible(text string) string {
	var out strings.Builder
	for _, c := range text {
		switch {
		case c == '\n' || c == '\t':
			out.WriteRune(' ')
		case api.Invisible(c):
			fmt.Fprintf(&out, "U+%04X", c)
		default:
			out.WriteRune(c)
		}
	}
	return out.String()
}

// Amount returns an amount with its unit, such as "4 CPU", "8 GiB" or "2 nvidia.com/gpu".
func Amount(name string, q resource.Quantity) string {
	number, unit := amount(name, q)
	return number + " " + unit
}

// resourceUnits are the units of amounts that are no bytes.
var resourceUnits = map[string]string{"cpu": "CPU", "nvidia.com/gpu": "GPU", "pods": "pods"}

func amount(name string, q resource.Quantity) (number, unit string) {
	if !inBytes(name) {
		unit = resourceUnits[name]
		if unit == "" {
			unit = Foreign(name)
		}
		return strconv.FormatFloat(math.Floor(float64(q.MilliValue())/10)/100, 'f', -1, 64), unit
	}
	v := float64(q.Value())
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; i < len(units)-1 && (v >= 1024 || v <= -1024); i++ {
		v /= 1024
	}
	part := 1.0 // of a unit; amounts are rounded down, so that what is shown as free can be had
	for ; part < 100 && math.Abs(v)*part < 100; part *= 10 {
	}
	return strconv.FormatFloat(math.Floor(v*part)/part, 'f', -1, 64), units[i]
}

// Amounts returns all amounts that are not 0, CPUs and memory first.
func Amounts(r api.Resources) string {
	var out []string
	for _, name := range names(r) {
		if q := r[name]; !q.IsZero() {
			out = append(out, Amount(string(name), q))
		}
	}
	if len(out) == 0 {
		return "–"
	}
	return strings.Join(out, ", ")
}

// names returns the names of resources, CPUs and memory first.
func names(of ...api.Resources) []corev1.ResourceName {
	all := map[corev1.ResourceName]bool{}
	for _, r := range of {
		for name := range r {
			all[name] = true
		}
	}
	rank := func(name corev1.ResourceName) int { return slices.Index([]corev1.ResourceName{"memory", "cpu"}, name) }
	return slices.SortedFunc(maps.Keys(all), func(a, b corev1.ResourceName) int {
		if d := rank(b) - rank(a); d != 0 {
			return d
		}
		return strings.Compare(string(a), string(b))
	})
}

// width returns a part of a whole as a percentage, for the width of a bar: at most 100, and 0 of nothing.
func width(part, whole float64) string {
	if whole <= 0 {
		return "0"
	}
	return strconv.FormatFloat(min(100, 100*part/whole), 'f', 1, 64)
}

// In returns how far a time is away: "in 3h", "5m ago"; "–" for none.
func In(t, now time.Time) string {
	switch d := t.Sub(now); {
	case t.IsZero():
		return "–"
	case d >= 0:
		return "in " + duration.HumanDuration(d.Round(time.Second))
	default:
		return duration.HumanDuration(-d.Round(time.Second)) + " ago"
	}
}

// Clock returns a time of day, with its date if it is another day's.
func Clock(t, now time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case t.UTC().Format(time.DateOnly) == now.UTC().Format(time.DateOnly):
		return t.UTC().Format("15:04:05")
	}
	return t.UTC().Format("2 Jan 15:04")
}

// Full returns a time in full.
func Full(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// Percent returns parts per million as a percentage; "–" for none.
func Percent(ppm *int64) string {
	if ppm == nil {
		return "–"
	}
	return explain.Percent(ppm)
}

// PriceText returns a price such as "0.08 EUR/hour", "free" for none.
func PriceText(p *api.Price) string {
	if p == nil {
		return "free"
	}
	return explain.Price(p)
}

// Fingerprint returns a fingerprint in groups of four characters, such as "SHA256: JlF- JBgR".
func Fingerprint(text string) string {
	var groups []string
	if kind, rest, ok := strings.Cut(Foreign(text), ":"); ok {
		groups, text = append(groups, kind+":"), rest
	} else {
		text = kind
	}
	for group := range slices.Chunk([]rune(text), 4) {
		groups = append(groups, string(group))
	}
	return strings.Join(groups, " ")
}

// toneOf is how a state of a reservation is shown.
func toneOf(s api.State) Tone {
	switch s {
	case api.Active:
		return OK
	case api.Rejected, api.Expired, api.Failed:
		return Bad
	case api.Released:
		return Off
	}
	return Wait
}

func at(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

func severityTone(s api.Severity) Tone {
	switch s {
	case api.SeverityError:
		return Bad
	case api.SeverityWarning:
		return Warn
	}
	return Off
}

// Quote returns arguments as a shell reads them.
func Quote(args ...string) string { return api.Command(args).String() }

// short returns the beginning of a text that stands in whole elsewhere on the page.
func short(text string) string {
	const most = 80
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// sentence returns a text of an agent as a sentence.
func sentence(text string) string {
	text = Foreign(text)
	if text == "" || strings.HasSuffix(text, ".") || strings.HasSuffix(text, "…") {
		return text
	}
	return text + "."
}

// ReadDuration reads a field of a form as the command line reads a duration. examples are such as "4h, 90m or 2d". Errors:
// Invalid at the field, also for 0 and less.
func ReadDuration(field, text, examples string) (time.Duration, *api.Error) {
	d, err := payload.ParseDuration(text)
	switch {
	case err != nil:
		return d, api.Invalid(field, "%.40q is not a duration", text).Fix("give one such as %s", examples)
	case d <= 0:
		return d, api.Invalid(field, "it must be more than 0").Fix("give a duration such as %s", examples)
	}
	return d, nil
}

// plainText returns a text of the documentation without its marks of code.
func plainText(text string) string { return strings.ReplaceAll(text, "`", "") }
