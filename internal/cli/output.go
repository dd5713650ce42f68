package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

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

// writeLines writes the lines that are not empty.
func writeLines(out io.Writer, lines ...string) {
	for _, line := range lines {
		if line != "" {
			fmt.Fprintln(out, line)
		}
	}
}

// number is empty for 0.
func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
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
