package pages

import (
	"fmt"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// Sample is what a VirtualNodePool used and reserved from a time on.
type Sample struct {
	At             time.Time
	Used, Reserved api.Resources
}

// The size of a chart, in units of its own.
const chartWidth, chartHeight = 100, 24

// chart is how one resource of a pool changed since its page is open. Used and Reserved are the outlines of areas.
type chart struct{ Used, Reserved, Text string }

// chart returns that of a resource; nil without samples.
func (p Pool) chart(name ResourceName, now time.Time) *chart {
	if len(p.Samples) == 0 {
		return nil
	}
	first := p.Samples[0].At
	all := append(p.Samples[:len(p.Samples):len(p.Samples)],
		Sample{At: now, Used: p.Pool.Payload.Status.Used, Reserved: p.Pool.Payload.Status.Reserved})
	used, reserved := series{name: name, of: func(s Sample) api.Resources { return s.Used }, all: all},
		series{name: name, of: func(s Sample) api.Resources { return s.Reserved }, all: all}
	most := p.Pool.Payload.Spec.Max[name]
	top := max(most.AsApproximateFloat64(), used.most(), reserved.most())
	return &chart{used.outline(top), reserved.outline(top),
		"Since " + Clock(first, now) + " UTC: " + used.text() + " used, " + reserved.text() + " reserved"}
}

// series is one amount over time.
type series struct {
	name ResourceName
	of   func(Sample) api.Resources
	all  []Sample // at least one, the oldest first
}

func (s series) value(i int) float64 {
	q := s.of(s.all[i])[s.name]
	return q.AsApproximateFloat64()
}

// extremes returns where the amount is least and most.
func (s series) extremes() (least, most int) {
	for i := range s.all {
		if s.value(i) < s.value(least) {
			least = i
		}
		if s.value(i) > s.value(most) {
			most = i
		}
	}
	return least, most
}

func (s series) most() float64 {
	_, i := s.extremes()
	return s.value(i)
}

// text returns the least and the most, such as "2–8 CPU", or "2 CPU" if they are the same.
func (s series) text() string {
	i, j := s.extremes()
	least, unit := amount(string(s.name), s.of(s.all[i])[s.name])
	most, unitOfMost := amount(string(s.name), s.of(s.all[j])[s.name])
	switch {
	case unit != unitOfMost:
		return least + " " + unit + "–" + most + " " + unitOfMost
	case least != most:
		return least + "–" + most + " " + unit
	}
	return most + " " + unit
}

// outline returns the area below the amount in a chart, as a path of SVG. Each amount holds until the next one.
func (s series) outline(top float64) string {
	begin := s.all[0].At
	whole := s.all[len(s.all)-1].At.Sub(begin)
	var path strings.Builder
	fmt.Fprintf(&path, "M0 %d", chartHeight)
	for i, sample := range s.all {
		if i > 0 && whole > 0 {
			fmt.Fprintf(&path, "H%.1f", min(1, max(0, float64(sample.At.Sub(begin))/float64(whole)))*chartWidth)
		}
		if i < len(s.all)-1 && top > 0 && (i == 0 || s.value(i) != s.value(i-1)) {
			fmt.Fprintf(&path, "V%.1f", chartHeight*(1-s.value(i)/top))
		}
	}
	if whole <= 0 {
		fmt.Fprintf(&path, "H%d", chartWidth)
	}
	fmt.Fprintf(&path, "V%dZ", chartHeight)
	return path.String()
}
