package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// watchable gives a command that lists something the flag --watch. It then runs again each second
// until it is interrupted, and prints the rows that are new. JSON and YAML are printed whole after
// each change.
func (sh *shell) watchable(cmd *cobra.Command) *cobra.Command {
	watch := false
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "keep running, and print what changes")
	once := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !watch {
			return once(cmd, args)
		}
		out, progress := sh.out, sh.progress
		defer func() { sh.out, sh.progress = out, progress }()
		var seen, saidBefore string
		for {
			var page, said bytes.Buffer
			sh.out, sh.progress = &page, &said
			err := once(cmd, args)
			if cmd.Context().Err() != nil {
				return nil
			}
			if said.String() != saidBefore {
				fmt.Fprint(progress, said.String())
			}
			sh.writeNew(out, seen, page.String())
			if err != nil {
				return err
			}
			seen, saidBefore = page.String(), said.String()
			if pause(cmd.Context(), time.Second) {
				return nil
			}
		}
	}
	return cmd
}

// writeNew writes the rows of a page that the page before lacks.
func (sh *shell) writeNew(out io.Writer, before, now string) {
	if sh.output == "json" || sh.output == "yaml" {
		if now != before {
			fmt.Fprint(out, now)
		}
		return
	}
	rows := strings.SplitAfter(before, "\n")
	for row := range strings.Lines(now) {
		if !slices.Contains(rows, row) {
			fmt.Fprint(out, row)
		}
	}
}
