package cli

import (
	"context"
	"io"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
)

// stdioCommand connects the broker's socket to standard input and output, for an operator who reaches the pod by exec.
func (sh *shell) stdioCommand() *cobra.Command {
	return &cobra.Command{
		Use: "stdio", Short: "Connect standard input and output to the broker's socket", Args: cobra.NoArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			server, err := sh.find("broker", brokerSocket(), "start one: bourse broker")
			if err != nil {
				return err
			}
			path, ok := strings.CutPrefix(server, "unix://")
			if !ok {
				return api.Invalid("--server", "%q is not a socket", server).Fix("give unix:///SOCKET")
			}
			return connectSocket(cmd.Context(), path, os.Stdin, sh.out)
		},
	}
}

// connectSocket copies in both directions until the socket's other side ends. The end of in ends one direction.
func connectSocket(ctx context.Context, path string, in io.Reader, out io.Writer) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return api.Errorf(api.CodeUnavailable, "no broker listens at %s: %s", path, err).Fix("see the broker's log")
	}
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	defer c.Close()
	go func() {
		_, _ = io.Copy(c, in)
		_ = c.(*net.UnixConn).CloseWrite()
	}()
	_, err = io.Copy(out, c)
	return err
}
