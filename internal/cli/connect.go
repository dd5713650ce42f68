package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
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

// agentClient returns a client of this cluster. It goes the way that the flags and the environment name. BOURSE_TOKEN
// holds the token for a listener on loopback.
func (sh *shell) agentClient() (*cluster.Client, error) {
	if sh.cluster != nil {
		return sh.cluster, nil
	}
	way, err := sh.findWay().choose()
	if err != nil {
		return nil, err
	}
	if way.asUser {
		config, err := sh.userConfig()
		if err != nil {
			return nil, err
		}
		var namespaces []string
		if !sh.allNamespaces {
			namespaces = []string{sh.namespace}
		}
		c, err := cluster.New(config, namespaces...)
		if err != nil {
			return nil, err
		}
		c.BeforeWrite(sh.tellWho(config))
		sh.cluster, err = sh.watched(c, config)
		return sh.cluster, err
	}
	if sh.allNamespaces || sh.namespace != "" {
		return nil, api.Invalid("--namespace", "is not what the agent at %s asks about: it is for the whole cluster", way.server).
			Fix("reach the cluster as yourself: --context NAME; or leave out --namespace and --all-namespaces")
	}
	listener := client.New(way.server, nil).WithToken(os.Getenv("BOURSE_TOKEN"))
	sh.cluster = cluster.At(listener, nil)
	return sh.cluster, nil
}

// tellWho returns what tells as whom a command writes, and where: a context may be of another cluster than its user thinks.
func (sh *shell) tellWho(config *rest.Config) func(context.Context) {
	return func(ctx context.Context) {
		fmt.Fprintf(sh.progress, "as %s at %s\n", cluster.UserName(ctx, config), sh.clusterName(config))
	}
}

// clusterName names a cluster by context and address.
func (sh *shell) clusterName(config *rest.Config) string {
	if context := sh.contextName(); context != "" {
		return context + " (" + config.Host + ")"
	}
	return config.Host
}

// userConfig returns how the user of the kubeconfig reaches the cluster. Without -n it takes the namespace of the
// context. Errors: Invalid.
func (sh *shell) userConfig() (*rest.Config, error) {
	loaded, err := sh.loaded()
	if err != nil {
		return nil, err
	}
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

// contextName returns the context of the kubeconfig that is used; empty if the file has none.
func (sh *shell) contextName() string {
	if sh.context != "" {
		return sh.context
	}
	loaded, err := sh.loaded()
	if err != nil {
		return ""
	}
	raw, _ := loaded.RawConfig()
	return raw.CurrentContext
}

// loaded reads the kubeconfig that the flags, KUBECONFIG or the home folder name. It is not one that loads later: where a
// kubeconfig is empty, that takes the rights of the pod it is in.
func (sh *shell) loaded() (clientcmd.ClientConfig, error) {
	rules := sh.loadingRules()
	files := strings.Join(rules.GetLoadingPrecedence(), string(filepath.ListSeparator))
	raw, err := rules.Load()
	if err != nil {
		return nil, api.Invalid("--kubeconfig", "%s cannot be read: %s", files, err).Fix("name a kubeconfig: --kubeconfig FILE")
	}
	if len(raw.Clusters) == 0 && (sh.kubeconfig != "" || os.Getenv("KUBECONFIG") != "") {
		return nil, api.Invalid("--kubeconfig", "%s has no cluster, or does not exist", files).
			Fix("see: kubectl config get-contexts; or name a file: --kubeconfig FILE")
	}
	return clientcmd.NewNonInteractiveClientConfig(*raw, sh.context, &clientcmd.ConfigOverrides{}, rules), nil
}

// loadingRules name the files of the kubeconfig.
func (sh *shell) loadingRules() *clientcmd.ClientConfigLoadingRules {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = sh.kubeconfig
	return rules
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

// brokerNamespace is where a broker runs in a cluster, unless -n names another namespace.
const brokerNamespace = "bourse-broker"

// operator returns a client of the broker: in the cluster of a kubeconfig, through its socket, or with an operator's
// certificate.
func (sh *shell) operator() (*client.Client, error) {
	switch namespace := cmp.Or(sh.namespace, brokerNamespace); {
	case sh.context != "" || sh.kubeconfig != "":
		config, err := sh.userConfig()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(sh.progress, "at the broker in namespace %s of %s\n", namespace, sh.clusterName(config))
		return cluster.NewBroker(config, namespace), nil
	case sh.namespace != "":
		return nil, api.Invalid("--namespace", "is that of a broker in a cluster, and no cluster is named").
			Fix("name it: --context NAME; or leave out --namespace")
	}
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
	return client.New(server, &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: certificate.Config(),
	}}), nil
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
func (sh *shell) find(what, socket, remedy string) (string, error) {
	if sh.server != "" {
		return sh.server, checkServer(sh.server)
	}
	if _, err := os.Stat(socket); err != nil {
		return "", api.Errorf(api.CodeUnavailable, "no %s listens at %s", what, socket).
			Fix("%s; or give its address: --server unix:///SOCKET (or BOURSE_SERVER)", remedy)
	}
	return "unix://" + socket, nil
}
