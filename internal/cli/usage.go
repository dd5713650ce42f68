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
	args := cmd.Args
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		if len(given) > 0 && cmd.HasSubCommands() {
			return noSuchCommand(cmd, given[0])
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

func noSuchCommand(cmd *cobra.Command, name string) error {
	remedy := fmt.Sprintf("see: %s --help", cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if alike := cmd.SuggestionsFor(name); len(alike) > 0 {
		remedy = "did you mean " + strings.Join(alike, " or ") + "? " + remedy
	}
	return api.Errorf(api.CodeInvalid, "%q is not a command of %s", name, cmd.CommandPath()).Fix("%s", remedy)
}

// badFlag turns an error of the flag library into ours.
func badFlag(cmd *cobra.Command, err error) error {
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
