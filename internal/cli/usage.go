package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bourse-dev/bourse/api"
)

// forms are the output formats of -o.
var forms = []string{"table", "wide", "json", "yaml", "name"}

// strict turns every mistake on a command line into an error like all others: with the flag, the
// value, a remedy, and the exit code of bad input. A command that only has subcommands shows its
// help.
func strict(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(badFlag)
	if cmd.RunE == nil {
		cmd.DisableFlagsInUseLine = true
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "stringToString" {
			f.DefValue = "" // else help shows "(default [])"
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
			return nil
		}
		wrong := "an argument is missing"
		if len(given) > 0 {
			wrong = fmt.Sprintf("unexpected argument %q", given[len(given)-1])
		}
		return api.Errorf(api.CodeInvalid, "%s", wrong).Fix("usage: %s", cmd.UseLine())
	}
	for _, child := range cmd.Commands() {
		strict(child)
	}
}

// takesFile reports whether an argument of a command is a file.
func takesFile(cmd *cobra.Command) bool {
	return strings.Contains(cmd.Use, "FILE") || strings.Contains(cmd.Use, "FOLDER")
}

// verbs are words of other command lines, and ours for them. THING is the argument that follows.
var verbs = map[string]string{
	"get": "bourse THING", "list": "bourse THING", "ls": "bourse THING", "delete": "bourse release RESERVATION", "down": "bourse release RESERVATION",
	"create": "bourse reserve", "up": "bourse init", "top": "bourse usage", "queue": "bourse reservations", "logs": "kubectl logs",
}

func noSuchCommand(cmd *cobra.Command, name string, more ...string) error {
	remedy := fmt.Sprintf("see: %s --help", cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if ours, known := verbs[name]; known && !cmd.HasParent() {
		thing := "THING"
		if len(more) > 0 {
			thing = more[0]
		}
		return api.Errorf(api.CodeInvalid, "bourse has no command %s", name).
			Fix("use: %s; %s", strings.ReplaceAll(ours, "THING", thing), remedy)
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
	e := api.Errorf(api.CodeInvalid, "%s", err)
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		e = api.Invalid("--"+bad.GetFlag().Name, "%q is not %s", bad.GetValue(), kindOf(bad.GetFlag()))
	} else if bad, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		e = api.Invalid("--"+bad.GetFlag().Name, "no value given")
	}
	return e.Fix("see: %s --help", cmd.CommandPath())
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

// checkForm refuses an unknown -o.
func (sh *shell) checkForm(*cobra.Command, []string) error {
	if !slices.Contains(forms, sh.output) {
		return api.Invalid("--output", "%q is not an output format", sh.output).Fix("choose %s", strings.Join(forms, ", "))
	}
	return nil
}
