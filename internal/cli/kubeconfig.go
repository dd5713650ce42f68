package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/settings"
	"github.com/bourse-dev/bourse/internal/market"
	serve "github.com/bourse-dev/bourse/internal/server/kubernetes"
	objects "github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// transportFlags are the flags for how an agent reaches its broker.
type transportFlags struct{ transport, kubeconfig, namespace string }

func (t *transportFlags) add(f *pflag.FlagSet) {
	f.StringVar(&t.transport, "broker-transport", "",
		"how to reach the broker: http, or kubernetes (through objects in the broker's own cluster, "+
			"docs/kubernetes.md); empty: no broker, even if other flags name one "+
			"(default: kubernetes with --broker-kubeconfig, else http)")
	f.StringVar(&t.kubeconfig, "broker-kubeconfig", "",
		"kubeconfig for the broker's cluster, from its operator: bourse broker kubeconfig CLUSTER")
	f.StringVar(&t.namespace, "broker-namespace", "",
		"namespace of this cluster's objects there (default: the one in the kubeconfig)")
}

// offline is a cluster without a broker: what the prototype's agent made of an empty transport. Its other flags
// still named one.
func offline(m settings.Member) settings.Member {
	m.NoBroker, m.Join, m.BrokerURL, m.CertDir = true, "", "", ""
	return m
}

// read checks the flags. Errors: Invalid with the flag.
func (t *transportFlags) read(o *settings.Member) (err error) {
	switch {
	case t.transport != "" && t.transport != "http" && t.transport != "kubernetes":
		return api.Invalid("--broker-transport", "%.40q is not a transport", t.transport).Fix("use http or kubernetes")
	case t.transport == "http" && t.kubeconfig != "":
		return api.Invalid("--broker-kubeconfig", "--broker-transport is http").
			Fix("leave it out, or give --broker-transport kubernetes")
	case t.transport == "kubernetes" && t.kubeconfig == "":
		return api.Invalid("--broker-kubeconfig", "is missing").
			Fix("with --broker-transport kubernetes, name the file from the broker's operator: bourse broker kubeconfig CLUSTER")
	case t.kubeconfig == "" && t.namespace != "":
		return api.Invalid("--broker-namespace", "there is no --broker-kubeconfig").
			Fix("leave it out, or also give --broker-kubeconfig")
	case t.kubeconfig == "":
		return nil
	case o.Join != "":
		return api.Invalid("--join", "with --broker-kubeconfig there is nothing to join").
			Fix("leave out --join and BOURSE_JOIN: the kubeconfig identifies the cluster")
	case o.BrokerURL != "" || o.CertDir != "":
		return api.Invalid("--broker-kubeconfig", "cannot be combined with --broker-url and --broker-cert-path").
			Fix("give one way to the broker")
	}
	o.Objects, err = objects.ReadAccess(t.kubeconfig, t.namespace)
	return err
}

const shortestTTL, longestTTL = 10 * time.Minute, 365 * 24 * time.Hour

func (sh *shell) kubeconfigCommand() *cobra.Command {
	var kubeconfig, server string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use: "kubeconfig CLUSTER", Args: cobra.ExactArgs(1),
		Short: "Print a kubeconfig with which a cluster reaches this broker through objects",
		Long: "For agents with --broker-transport kubernetes. The command creates the cluster's namespace in the\n" +
			"broker's own cluster and binds it to the cluster ID. It prints a kubeconfig with a token. The token has\n" +
			"the rights of ClusterRole " + objects.Account + " (config/kubernetes) in that namespace, and no rights\n" +
			"elsewhere. For an approved member the broker has created everything but the token: then you only need\n" +
			"the right to create tokens there. The command uses your kubeconfig, not the broker.\n\n" +
			"Anyone who has the printed kubeconfig can act as that cluster at the broker. Hand it over in private,\n" +
			"and compare the fingerprint before you approve the cluster. To renew, run the command again before the\n" +
			"token ends and replace the agent's file; the agent reads it again by itself. bourse broker revoke and\n" +
			"remove end all tokens of a cluster.",
		Example: "  bourse broker kubeconfig rome --ttl 168h > rome.kubeconfig",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := market.ValidCluster("CLUSTER", args[0]); err != nil {
				return err
			}
			if ttl < shortestTTL || ttl > longestTTL {
				return api.Invalid("--ttl", "%s is not between %s and %s", ttl, shortestTTL, longestTTL).
					Fix("give a duration such as 168h")
			}
			config, err := kubernetes(kubeconfig)
			if err != nil {
				return err
			}
			c, err := client.New(config, client.Options{})
			if err != nil {
				return err
			}
			token, err := memberToken(cmd.Context(), c, args[0], ttl)
			if err != nil {
				return err
			}
			if server != "" {
				config.Host = server
			}
			text, err := memberKubeconfig(args[0], config, token.Token)
			if err != nil {
				return err
			}
			fmt.Fprintf(sh.progress, "Valid until %s, for cluster %s: bourse agent --broker-kubeconfig FILE\n",
				token.ExpirationTimestamp.UTC().Format(time.RFC3339), args[0])
			_, err = sh.out.Write(text)
			return err
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "",
		"kubeconfig of an admin of the broker's own cluster (default: KUBECONFIG, else the pod's own service account)")
	cmd.Flags().StringVar(&server, "api-server", "",
		"URL of that cluster's API server for the member (default: the one in your kubeconfig)")
	durationVar(cmd.Flags(), &ttl, "ttl", 7*24*time.Hour, "how long the token is valid; the API server may shorten it")
	return cmd
}

// memberToken binds a cluster to its namespace, where that is to be done yet, and makes a token of
// its account. The token ends by itself, and with the account. Errors: NotFound without
// config/kubernetes, Conflict where the namespace is another's, Unavailable.
func memberToken(ctx context.Context, c client.Client, cluster string,
	ttl time.Duration) (authenticationv1.TokenRequestStatus, error) {
	if err := c.Get(ctx, client.ObjectKey{Name: objects.Account}, &rbacv1.ClusterRole{}); apierrors.IsNotFound(err) {
		return authenticationv1.TokenRequestStatus{}, api.Errorf(api.CodeNotFound,
			"the broker's cluster has no ClusterRole %s: a token would have no rights", objects.Account).
			FixBy("", "kubectl", "apply", "-k", "config/kubernetes")
	}
	unbound := serve.Bind(ctx, c, cluster)
	if unbound != nil && !apierrors.IsForbidden(unbound) {
		return authenticationv1.TokenRequestStatus{}, asAdmin(unbound)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: objects.Namespace(cluster),
		Name: objects.Account}}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(ttl.Seconds()))}}
	switch err := c.SubResource("token").Create(ctx, account, request); {
	case err == nil:
		return request.Status, nil
	case unbound != nil && apierrors.IsNotFound(err): // a user who may only make tokens needs the broker for the rest
		return authenticationv1.TokenRequestStatus{}, api.Errorf(api.CodeUnavailable, "%s", unbound).
			Fix("use the kubeconfig of an admin of the broker's cluster: --kubeconfig; or approve %s first, if it asked to "+
				"join: the broker binds its members", cluster)
	default:
		return authenticationv1.TokenRequestStatus{}, asAdmin(err)
	}
}

// asAdmin returns an error of the broker's cluster with a remedy, unless it already has one.
func asAdmin(err error) error {
	if _, ok := errors.AsType[*api.Error](err); ok {
		return err
	}
	return api.Errorf(api.CodeUnavailable, "%s", err).
		Fix("use the kubeconfig of an admin of the broker's cluster: --kubeconfig")
}

// memberKubeconfig makes a kubeconfig. From config it takes only the API server's address and CA.
func memberKubeconfig(cluster string, config *rest.Config, token string) ([]byte, error) {
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, err
	}
	const name = "broker"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: config.Host, CertificateAuthorityData: config.CAData, TLSServerName: config.ServerName,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{cluster: {Token: token}},
		Contexts: map[string]*clientcmdapi.Context{name: {Cluster: name,
			AuthInfo: cluster, Namespace: objects.Namespace(cluster)}},
		CurrentContext: name,
	})
}
