package cli

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

// agentClient returns a client of this cluster's agent. BOURSE_TOKEN holds the token for an agent's
// loopback listener.
func (sh *shell) agentClient() (*client.Client, error) {
	server, err := sh.find("agent", agentSocket(), "start one: bourse agent (to try it out: bourse demo)")
	if err != nil {
		return nil, err
	}
	return client.New(server, nil).WithToken(os.Getenv("BOURSE_TOKEN")), nil
}

// operator returns a client of the broker, through its socket or with an operator's certificate.
func (sh *shell) operator() (*client.Client, error) {
	server, err := sh.find("broker", brokerSocket(), "start one: bourse broker")
	switch {
	case err != nil:
		return nil, err
	case strings.HasPrefix(server, "unix://") && sh.operatorCert == "":
		return client.New(server, nil), nil
	case !strings.HasPrefix(server, "https://"):
		return nil, api.Invalid("--operator-cert", "%s does not use TLS", server).
			Fix("give the URL of the broker: --server https://HOST:PORT")
	case sh.operatorCert == "":
		return nil, api.Errorf(api.CodeUnauthenticated, "%s needs an operator's certificate", server).
			Fix("give --operator-cert DIR, the folder `operator` in the broker's --dir or a copy of it; or use the broker's " +
				"socket on its own machine")
	}
	certificate, err := tlsid.OpenClient(sh.operatorCert, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, api.Invalid("--operator-cert", "%s", err).
			Fix("name a folder with tls.crt, tls.key and ca.crt, such as `operator` in the broker's --dir")
	}
	return client.New(server, &http.Client{Transport: &http.Transport{TLSClientConfig: certificate.Config()}}), nil
}

// action is what a command does with a client.
type action = func(ctx context.Context, c *client.Client, args []string) error

// asUser runs a command with a client of this cluster's agent.
func (sh *shell) asUser(run action) func(*cobra.Command, []string) error {
	return with(sh.agentClient, run)
}

// asOperator runs a command with a client of the broker.
func (sh *shell) asOperator(run action) func(*cobra.Command, []string) error {
	return with(sh.operator, run)
}

func with(connect func() (*client.Client, error), run action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := connect()
		if err != nil {
			return err
		}
		return run(cmd.Context(), c, args)
	}
}

// find returns the address of the server: --server, or the default socket of this user.
func (sh *shell) find(what, socket, start string) (string, error) {
	switch {
	case strings.HasPrefix(sh.server, "unix://"), strings.HasPrefix(sh.server,
		"https://"), strings.HasPrefix(sh.server, "http://"):
		return sh.server, nil
	case sh.server != "":
		return "", api.Invalid("--server", "%q is neither a URL nor a socket", sh.server).
			Fix("use https://HOST:PORT or unix:///SOCKET")
	}
	if _, err := os.Stat(socket); err != nil {
		return "", api.Errorf(api.CodeUnavailable, "no %s listens at %s", what, socket).
			Fix("%s; or give its address: --server unix:///SOCKET (or BOURSE_SERVER)", start)
	}
	return "unix://" + socket, nil
}
