package explain

import (
	"fmt"
	"maps"
	"math"
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

// Quantity returns a quantity in a readable form: CPUs in cores, with one decimal, bytes rounded down to the largest
// unit that leaves a readable number.
func Quantity(q resource.Quantity, name string) string {
	if name == "cpu" && q.MilliValue()%1000 != 0 && max(q.MilliValue(), -q.MilliValue()) >= 100 {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", math.Floor(float64(q.MilliValue())/100)/10), ".0")
	}
	if name != "memory" && name != "ephemeral-storage" {
		if q.MilliValue()%1000 == 0 {
			return strconv.FormatInt(q.Value(), 10)
		}
		return q.String()
	}
	v, sign := q.Value(), ""
	if v < 0 {
		v, sign = -v, "-"
	}
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"Ti", 1 << 40}, {"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}} {
		if v >= 10*unit.bytes || v >= unit.bytes && v%unit.bytes == 0 {
			return fmt.Sprintf("%s%d%s", sign, v/unit.bytes, unit.name)
		}
	}
	return fmt.Sprintf("%s%d", sign, v)
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
