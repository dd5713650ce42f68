package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

// agentClient returns a client of this cluster: with --context or --kubeconfig, as the user of the kubeconfig, else at
// the agent's own listener. BOURSE_TOKEN holds the token for a listener on loopback.
func (sh *shell) agentClient() (*cluster.Client, error) {
	if sh.cluster != nil {
		return sh.cluster, nil
	}
	if sh.context != "" || sh.kubeconfig != "" {
		c, err := sh.clusterClient()
		sh.cluster = c
		return c, err
	}
	server, err := sh.find("agent", agentSocket(), "start one: bourse agent (to try it out: bourse demo)")
	if err != nil {
		return nil, err
	}
	return cluster.AtListener(client.New(server, nil).WithToken(os.Getenv("BOURSE_TOKEN"))), nil
}

// clusterClient returns a client as the user of a kubeconfig, for the namespace that -n or the context names.
func (sh *shell) clusterClient() (*cluster.Client, error) {
	config, err := sh.userConfig()
	switch {
	case err != nil:
		return nil, err
	case sh.allNamespaces:
		return cluster.New(config)
	}
	return cluster.New(config, sh.namespace)
}

// userConfig returns how the user of the kubeconfig reaches the cluster. Without -n it takes the namespace of the
// context. Errors: Invalid.
func (sh *shell) userConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = sh.kubeconfig
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: sh.context})
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, api.Invalid("--context", "%s", err).Fix("see: kubectl config get-contexts; or name a file: --kubeconfig FILE")
	}
	if sh.namespace == "" {
		if sh.namespace, _, err = loaded.Namespace(); err != nil {
			return nil, api.Invalid("--kubeconfig", "%s", err).Fix("name a kubeconfig: --kubeconfig FILE")
		}
	}
	return config, nil
}

// close ends the sessions of a command. The agent ends those that stay.
func (sh *shell) close(ctx context.Context) {
	if sh.cluster == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := sh.cluster.Close(ctx); err != nil {
		fmt.Fprintf(sh.progress, "warning: a session stays until it expires: %s\n", err)
	}
	sh.cluster = nil
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

// action is what a command does with a client, of a cluster or of a broker.
type action[C any] = func(ctx context.Context, c C, args []string) error

// asUser runs a command with a client of this cluster.
func (sh *shell) asUser(run action[*cluster.Client]) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := sh.agentClient()
		if err != nil {
			return err
		}
		return run(cmd.Context(), c, args)
	}
}

// asOperator runs a command with a client of the broker.
func (sh *shell) asOperator(run action[*client.Client]) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := sh.operator()
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
