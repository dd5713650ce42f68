package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
)

// consent asks the user before something that cannot be undone.
type consent struct{ yes bool }

// add adds the flag that answers for the user.
func (c *consent) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do not ask")
}

// ask asks a question. Errors: Invalid if the answer is not yes.
func (c *consent) ask(cmd *cobra.Command, out io.Writer, question string) error {
	if c.yes || agrees(cmd.Context(), bufio.NewReader(cmd.InOrStdin()), out, question) {
		return nil
	}
	return api.Errorf(api.CodeInvalid, "nothing was changed").Fix("answer yes, or use --yes")
}

// askFirst makes cmd ask a question, with the flag --yes, and then run with a client.
func (sh *shell) askFirst(connect func() (*client.Client, error),
	question func(args []string) string, cmd *cobra.Command,
	run func(context.Context, *client.Client, []string) error) *cobra.Command {
	var sure consent
	sure.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connect()
		if err == nil {
			err = sure.ask(cmd, sh.progress, question(args))
		}
		if err != nil {
			return err
		}
		return run(cmd.Context(), c, args)
	}
	return cmd
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
