package cli

import (
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

var helpFunctions sync.Once

// wrapHelp makes the help of all commands as wide as the terminal.
func wrapHelp(root *cobra.Command) {
	helpFunctions.Do(func() {
		cobra.AddTemplateFunc("width", width)
		cobra.AddTemplateFunc("reflow", reflow)
	})
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped width"))
	root.SetHelpTemplate(strings.Replace(root.HelpTemplate(), "{{. |", "{{. | reflow |", 1))
}

// width is the number of columns for help: COLUMNS, or those of the terminal. 0: lines stay as they are.
func width() int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return max(n, 40)
	}
	if n, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		return max(n, 40)
	}
	return 0
}

// reflow breaks the lines of a text so that none is longer than the help is wide. A line that ends
// near the right margin goes on in the next one.
func reflow(text string) string {
	most := width()
	if most == 0 || most >= 130 {
		return text
	}
	var out strings.Builder
	column := 0
	for line := range strings.Lines(text) {
		for _, word := range strings.Fields(line) {
			if column > 0 && column+1+len(word) > most {
				out.WriteString("\n")
				column = 0
			} else if column > 0 {
				out.WriteString(" ")
				column++
			}
			out.WriteString(word)
			column += len(word)
		}
		if len(line) < 90 { // the end of a paragraph
			out.WriteString("\n")
			column = 0
		}
	}
	return out.String()
}
