package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"text/tabwriter"
)

// Figure is one line of the table.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Goal is a bound such as ">= 20000", in the same unit; empty for a figure that only explains others.
	Goal string `json:"goal,omitempty"`
	Met  *bool  `json:"met,omitempty"`
	// Ratio is Value in proportion to RatioTo, which the same machine did in the same run.
	Ratio   float64 `json:"ratio,omitempty"`
	RatioTo string  `json:"ratioTo,omitempty"`
}

func plain(name string, value float64, unit string) Figure {
	return Figure{Name: name, Value: rounded(value), Unit: unit}
}

func atLeast(goal float64, name string, value float64, unit string) Figure {
	f, met := plain(name, value, unit), value >= goal
	f.Goal, f.Met = ">= "+number(goal), &met
	return f
}

func atMost(goal float64, name string, value float64, unit string) Figure {
	f, met := plain(name, value, unit), value <= goal
	f.Goal, f.Met = "<= "+number(goal), &met
	return f
}

// to puts a figure in proportion to another measurement of the same run.
func (f Figure) to(what string, value float64) Figure {
	f.Ratio, f.RatioTo = rounded(f.Value/value), what
	return f
}

// rounded keeps three digits: more would be noise.
func rounded(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	scale := math.Pow10(2 - int(math.Floor(math.Log10(math.Abs(v)))))
	return math.Round(v*scale) / scale
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// show prints the figures as a table.
func show(out io.Writer, figures []Figure) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tVALUE\tGOAL\tMET\tRATIO")
	for _, f := range figures {
		met, ratio := "", ""
		if f.Met != nil {
			met = map[bool]string{true: "yes", false: "NO"}[*f.Met]
		}
		if f.RatioTo != "" {
			ratio = number(f.Ratio) + " x " + f.RatioTo
		}
		fmt.Fprintf(w, "%s\t%s %s\t%s\t%s\t%s\n", f.Name, number(f.Value), f.Unit, f.Goal, met, ratio)
	}
	_ = w.Flush()
}

// write stores the figures as JSON.
func write(path string, figures []Figure) error {
	data, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
