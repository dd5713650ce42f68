package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
)

// asksFirst gives a command that cannot be undone the flag --yes, which answers for the user.
func (sh *shell) asksFirst(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&sh.yes, "yes", false, "do not ask")
	return cmd
}

// ask asks the user before something that cannot be undone. Errors: Invalid if the answer is not yes.
func (sh *shell) ask(ctx context.Context, question string) error {
	if sh.yes || agrees(ctx, bufio.NewReader(os.Stdin), sh.progress, question) {
		return nil
	}
	return api.Errorf(api.CodeInvalid, "nothing was changed").Fix("answer yes, or use --yes")
}

// agreement is what a user agrees to before a command acts on something that others can change.
type agreement struct {
	given []string // by --digest
	// digest stands for what the command shows now. Empty: what is shown has none.
	digest string
	// shown is what the user agrees to, in a sentence, and question asks for it.
	shown, question string
	// command acts on it. With the digest it acts on nothing else.
	command string
}

// takesDigest gives a command the flags by which a user agrees to what it acts on, without a question.
func (sh *shell) takesDigest(cmd *cobra.Command, given *[]string, where string) *cobra.Command {
	cmd.Flags().StringSliceVar(given, "digest", nil,
		"digest of what you saw ("+where+"): do not ask, and act on nothing else; may be repeated")
	cmd.Flags().BoolVar(&sh.yes, "yes", false, "do not ask, and act on what is there when the command runs")
	return cmd
}

// agree makes sure that the user agrees: by the digest, by --yes, or at a terminal. Errors: Conflict if the user saw
// something else; Invalid if the user does not agree.
func (sh *shell) agree(ctx context.Context, a agreement) error {
	precisely := a.command + " --yes"
	if a.digest != "" {
		precisely = a.command + " --digest " + a.digest
	}
	switch {
	case a.digest != "" && slices.Contains(a.given, a.digest):
		return nil
	case len(a.given) > 0:
		return api.Errorf(api.CodeConflict, "it is not what you saw (ChangedSince): %s; nothing was changed", a.shown).
			Fix("if you agree to it: %s", precisely)
	case sh.yes:
		return nil
	}
	fmt.Fprintln(sh.progress, a.shown)
	if terminal(os.Stdin) && agrees(ctx, bufio.NewReader(os.Stdin), sh.progress, a.question) {
		return nil
	}
	return api.Errorf(api.CodeInvalid, "nothing was changed").Fix("if you agree to what is shown: %s", precisely)
}

// agrees asks a question. It returns true only for yes.
func agrees(ctx context.Context, in *bufio.Reader, out io.Writer, question string) bool {
	fmt.Fprintf(out, "%s [y/N] ", question)
	line, err := readLine(ctx, in)
	if err != nil {
		fmt.Fprintln(out)
	}
	answer := strings.ToLower(line)
	return answer == "y" || answer == "yes"
}

// readLine reads a line without the space around it. It does not wait for one that never comes once
// ctx ends: a signal ends a command that asks.
func readLine(ctx context.Context, in *bufio.Reader) (string, error) {
	type read struct {
		line string
		err  error
	}
	done := make(chan read, 1)
	go func() {
		line, err := in.ReadString('\n')
		done <- read{strings.TrimSpace(line), err}
	}()
	select {
	case r := <-done:
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
