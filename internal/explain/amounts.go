package explain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/money"
)

// Sizes returns amounts as flags take them: "cpu=4 memory=8Gi". CPUs are exact, in cores.
func Sizes(r api.Resources) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r)) {
		q := r[name]
		text := Quantity(q, string(name))
		if name == "cpu" {
			text = strconv.FormatFloat(float64(q.MilliValue())/1000, 'f', -1, 64)
		}
		parts = append(parts, string(name)+"="+text)
	}
	return strings.Join(parts, " ")
}

// Quantity returns a quantity as [amounts.Amount.Text] writes it. What has no whole number of units is exact.
func Quantity(q resource.Quantity, name string) string {
	switch value := q.MilliValue(); {
	case name == "cpu":
		return amounts.Amount{Resource: name, Value: value}.Text()
	case value%1000 != 0:
		return q.String()
	}
	return amounts.Amount{Resource: name, Value: q.Value()}.Text()
}

// Part returns the largest of equal parts of an amount; nil if the amount is not valid.
func Part(whole api.Resources, parts int) api.Resources {
	part, err := amounts.ParseRequest("resources", whole)
	if err != nil {
		return nil
	}
	n := int64(parts)
	for i := range part {
		part[i].Value = (part[i].Value + n - 1) / n
	}
	return part.Resources()
}

// Price returns a price such as "0.08 EUR/hour", "?" if it is not valid.
func Price(p *api.Price) string {
	price, err := money.Parse("price", p)
	if err != nil {
		return "?"
	}
	return price.Text()
}

// Points writes parts per million as a number up to 100.
func Points(ppm int64) string { return fmt.Sprintf("%.1f", float64(ppm)/10_000) }

// Percent writes parts per million as a percentage. It is empty for nil.
func Percent(millionths *int64) string {
	if millionths == nil {
		return ""
	}
	return fmt.Sprintf("%d.%02d%%", *millionths/10_000, *millionths%10_000/100)
}

// Count is "1 reservation" or "2 reservations".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// Until returns how far away a time is, in kubectl's format for ages: "over" if it has passed, empty for none.
func Until(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := t.Sub(now).Round(time.Second)
	if d < 0 {
		return "over"
	}
	return duration.HumanDuration(d)
}

// Time returns a time in RFC 3339, empty for none.
func Time(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// Duration returns a duration without the units at its end that are 0: 30m, 24h, 5m40s.
func Duration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
