package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/bourse-dev/bourse/api"
)

// strict turns every mistake on a command line into an error like all others: with the flag, the
// value, a remedy, and the exit code of bad input. A command that only has subcommands shows its
// help.
func (sh *shell) strict(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(badFlag)
	if cmd.RunE == nil {
		cmd.DisableFlagsInUseLine = true
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		defer sh.close(cmd.Context())
		return run(cmd, args)
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "stringToString" {
			f.DefValue = "" // else help shows "(default [])"
		}
		if !aPath.MatchString(f.Usage) {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, sh.completeFlag(f.Name)) // fails for a name that cmd lacks
		}
	})
	if cmd.ValidArgsFunction == nil && cmd.Args != nil && !takesFile(cmd) {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	args := cmd.Args
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		if len(given) > 0 && cmd.HasSubCommands() {
			return noSuchCommand(cmd, given[0], given[1:]...)
		}
		if args == nil || args(cmd, given) == nil {
			return cmp.Or(checkAccess(cmd), checkGiven(cmd))
		}
		wrong := "an argument is missing"
		if len(given) > 0 {
			wrong = fmt.Sprintf("unexpected argument %q", given[len(given)-1])
		}
		return api.Errorf(api.CodeInvalid, "%s", wrong).Fix("usage: %s", cmd.UseLine())
	}
	for _, child := range cmd.Commands() {
		sh.strict(child)
	}
}

// choices are the values of flags that have a fixed set of them.
var choices = map[string][]string{
	"output": forms, "sort": {"name", string(api.ByPrice), string(api.ByRegion), string(api.ByUptime)},
	"strategy":  {string(api.Balance), string(api.Pack), string(api.Reliable), string(api.Cheap)},
	"network":   {string(api.NetworkNone), string(api.NetworkWireGuard)},
	"data":      {string(api.DataStay), string(api.DataMove)},
	"pool":      {api.GeneralPool},
	"via":       {"auto", "direct", "broker"},
	"log-level": {"debug", "info", "warn", "error"}, "log-format": {"text", "json"},
	"broker-transport": {"http", "kubernetes"}, "broker-interface": {"http", "kubernetes", "both"},
}

// completeFlag completes the value of a flag.
func (sh *shell) completeFlag(name string) cobra.CompletionFunc {
	switch name {
	case "target", "exclude", "prefer", "seller":
		clusters := complete(sh.agentClient, clusterNames)
		return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return clusters(cmd, nil, begun)
		}
	}
	return cobra.FixedCompletions(choices[name], cobra.ShellCompDirectiveNoFileComp)
}

// aPath matches the description of a flag whose value is a file or a folder.
var aPath = regexp.MustCompile(`^(for the subcommands: )?(PEM |the broker's )?(file|folder|socket|kubeconfig)\b`)

// takesFile reports whether an argument of a command is a file.
func takesFile(cmd *cobra.Command) bool {
	return strings.Contains(cmd.Use, "FILE") || strings.Contains(cmd.Use, "FOLDER")
}

// verbs are words of other command lines, and ours for them. THING is the argument that follows.
var verbs = map[string]string{
	"get": "bourse THING", "list": "bourse THING", "ls": "bourse THING",
	"delete": "bourse release RESERVATION", "down": "bourse release RESERVATION",
	"create": "bourse reserve", "up": "bourse init", "top": "bourse usage",
	"queue": "bourse reservations", "logs": "kubectl logs",
}

func noSuchCommand(cmd *cobra.Command, name string, more ...string) error {
	remedy := fmt.Sprintf("see: %s --help", cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if verb, known := verbs[name]; known && !cmd.HasParent() {
		thing := "THING"
		if len(more) > 0 {
			thing = more[0]
		}
		return api.Errorf(api.CodeInvalid, "bourse has no command %s", name).
			Fix("use: %s; %s", strings.ReplaceAll(verb, "THING", thing), remedy)
	}
	if alike := cmd.SuggestionsFor(name); len(alike) > 0 {
		remedy = "did you mean " + strings.Join(alike, " or ") + "? " + remedy
	}
	return api.Errorf(api.CodeInvalid, "%q is not a command of %s", name, cmd.CommandPath()).Fix("%s", remedy)
}

// badFlag turns an error of the flag library into ours.
func badFlag(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); !cmd.HasParent() && len(words) > 0 { // the flag of a command that is spelled wrong
		return noSuchCommand(cmd, words[0], words[1:]...)
	}
	if known, ok := errors.AsType[*api.Error](err); ok {
		return known
	}
	e := api.Errorf(api.CodeInvalid, "%s", err)
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		e = api.Invalid("--"+bad.GetFlag().Name, "%q is not %s", bad.GetValue(), kindOf(bad.GetFlag()))
	} else if bad, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		e = api.Invalid("--"+bad.GetFlag().Name, "no value given")
	}
	remedy := ""
	if bad, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if alike := similar(bad.GetSpecifiedName(), known); len(alike) > 0 {
			remedy = "did you mean --" + strings.Join(alike, " or --") + "? "
		}
	}
	return e.Fix("%ssee: %s --help", remedy, cmd.CommandPath())
}

// kindOf describes the values that a flag takes.
func kindOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "duration":
		return "a duration such as 1h30m or 7d"
	case "stringToString":
		return "NAME=VALUE"
	case "bool":
		return "true or false"
	default:
		return "a number"
	}
}

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
