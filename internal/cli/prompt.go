package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
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
