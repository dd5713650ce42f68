package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/bourse-dev/bourse/api"
)

// column is one column of a table; a wide one shows only with -o wide. With ordinary names the others fit into 80
// columns of a terminal.
type column[T any] struct {
	title string
	wide  bool
	cell  func(api.Envelope[T]) string
}

// show writes items in the format of -o. It prints empty in place of an empty table.
func show[T any](sh *shell, items []api.Envelope[T], empty string, columns []column[T]) error {
	switch {
	case sh.encodes():
		return sh.encode(items)
	case sh.output == "name":
		for _, item := range items {
			fmt.Fprintln(sh.out, item.ID)
		}
		return nil
	case len(items) == 0:
		fmt.Fprintln(sh.progress, empty)
		return nil
	}
	return sh.table(rowsOf(items, columns, sh.output == "wide"))
}

// rowsOf returns the titles of columns, and a row of cells for each item.
func rowsOf[T any](items []api.Envelope[T], columns []column[T], wide bool) [][]string {
	rows := make([][]string, len(items)+1)
	for _, c := range columns {
		if c.wide && !wide {
			continue
		}
		rows[0] = append(rows[0], c.title)
		for i, item := range items {
			rows[i+1] = append(rows[i+1], c.cell(item))
		}
	}
	return rows
}

// table writes rows in columns.
func (sh *shell) table(rows [][]string) error {
	w := tabwriter.NewWriter(sh.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if cell == "" {
				row[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// human returns a quantity in a readable form: CPUs in cores, with one decimal, bytes rounded down to
// the largest unit that leaves a readable number.
func human(q resource.Quantity, name string) string {
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

// until returns how far away a time is, in kubectl's format for ages.
func until(t metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	d := time.Until(t.Time).Round(time.Second)
	if d < 0 {
		return "over"
	}
	return duration.HumanDuration(d)
}

// number is empty for 0.
func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// count is "1 reservation" or "2 reservations".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// lister is a call of the client that returns all items of a kind.
type lister[C, T any] = func(C, context.Context) ([]api.Envelope[T], error)

// listed returns what a command runs that shows all items of a kind.
func listed[C, T any](list lister[C, T], show func([]api.Envelope[T]) error) action[C] {
	return func(ctx context.Context, c C, _ []string) error {
		items, err := list(c, ctx)
		if err != nil {
			return err
		}
		return show(items)
	}
}

// find returns the item with an ID. Errors: those of list; missing if there is none.
func find[C, T any](ctx context.Context, c C, list lister[C, T], id string,
	missing *api.Error) (found api.Envelope[T], err error) {
	items, err := list(c, ctx)
	if err != nil {
		return found, err
	}
	if i := slices.IndexFunc(items, func(item api.Envelope[T]) bool { return item.ID == id }); i >= 0 {
		return items[i], nil
	}
	return found, missing
}

// idsOf returns a function that returns the IDs of all items of a kind, for completion.
func idsOf[C, T any](list lister[C, T]) func(context.Context, C) ([]string, error) {
	return func(ctx context.Context, c C) ([]string, error) {
		items, err := list(c, ctx)
		return ids(items), err
	}
}

func ids[T any](items []api.Envelope[T]) []string {
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = item.ID
	}
	return names
}
