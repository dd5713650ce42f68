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
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent"
	"github.com/bourse-dev/bourse/internal/market"
	objects "github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// transportFlags say how an agent reaches its broker.
type transportFlags struct{ transport, kubeconfig, namespace string }

func (t *transportFlags) add(f *pflag.FlagSet) {
	f.StringVar(&t.transport, "broker-transport", "", "how the broker is reached: http, or kubernetes: through objects in the broker's own cluster (docs/kubernetes.md) (default: http, and kubernetes with --broker-kubeconfig)")
	f.StringVar(&t.kubeconfig, "broker-kubeconfig", "", "kubeconfig for the broker's cluster, which its operator made: bourse broker kubeconfig CLUSTER")
	f.StringVar(&t.namespace, "broker-namespace", "", "namespace of this cluster's objects there (default: the one that the kubeconfig names)")
}

// read checks the flags. Errors: Invalid with the flag.
func (t *transportFlags) read(o *agent.Options) (err error) {
	switch {
	case t.transport != "" && t.transport != "http" && t.transport != "kubernetes":
		return api.Invalid("--broker-transport", "%.40q is none", t.transport).Fix("use http or kubernetes")
	case t.transport == "http" && t.kubeconfig != "":
		return api.Invalid("--broker-kubeconfig", "the broker is reached by http").Fix("leave it out, or give --broker-transport kubernetes")
	case t.transport == "kubernetes" && t.kubeconfig == "":
		return api.Invalid("--broker-kubeconfig", "is empty").Fix("with --broker-transport kubernetes, name the file that the broker's operator made: bourse broker kubeconfig CLUSTER")
	case t.kubeconfig == "" && t.namespace != "":
		return api.Invalid("--broker-namespace", "the broker is reached by http").Fix("leave it out, or give --broker-kubeconfig, too")
	case t.kubeconfig == "":
		return nil
	case o.Join != "":
		return api.Invalid("--join", "with --broker-kubeconfig there is nothing to join").Fix("leave out --join and BOURSE_JOIN: the kubeconfig says which cluster this is")
	case o.BrokerURL != "" || o.CertDir != "":
		return api.Invalid("--broker-kubeconfig", "it does not go with --broker-url and --broker-cert-path").Fix("say one way to the broker")
	}
	o.Objects, err = objects.ReadAccess(t.kubeconfig, t.namespace)
	return err
}

const shortestTTL, longestTTL = 10 * time.Minute, 365 * 24 * time.Hour

func (sh *shell) kubeconfigCommand() *cobra.Command {
	var kubeconfig, server string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use: "kubeconfig CLUSTER", Short: "Print a kubeconfig by which a cluster reaches this broker through objects", Args: cobra.ExactArgs(1),
		Long: "For agents with --broker-transport kubernetes. It makes the cluster's namespace in the broker's own cluster, binds it to the cluster\n" +
			"ID, and prints a kubeconfig with a token that can do there what ClusterRole " + objects.Account + " (config/kubernetes) says, and nothing\n" +
			"elsewhere. It acts with your kubeconfig, not through the broker. Whoever has what is printed is that cluster to the broker: hand it\n" +
			"over in private, and compare the fingerprint before you approve it. To renew, run it again before the token ends, and replace the\n" +
			"agent's file: the agent reads it again by itself. bourse broker revoke and remove end all its tokens.",
		Example: "  bourse broker kubeconfig rome --ttl 168h > rome.kubeconfig",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := market.ValidCluster("CLUSTER", args[0]); err != nil {
				return err
			}
			if ttl < shortestTTL || ttl > longestTTL {
				return api.Invalid("--ttl", "%s is not between %s and %s", ttl, shortestTTL, longestTTL).Fix("give a duration such as 168h")
			}
			config, err := kubernetes(kubeconfig)
			if err != nil {
				return err
			}
			clients, err := clientset.NewForConfig(config)
			if err != nil {
				return err
			}
			if _, err := clients.RbacV1().ClusterRoles().Get(cmd.Context(), objects.Account, metav1.GetOptions{}); apierrors.IsNotFound(err) {
				return api.Errorf(api.CodeNotFound, "the broker's cluster has no ClusterRole %s: a token would be worth nothing", objects.Account).Fix("kubectl apply -k config/kubernetes")
			}
			if err := bindNamespace(cmd.Context(), clients, args[0]); err != nil {
				return api.Errorf(api.CodeUnavailable, "%s", err).Fix("act as an admin of the broker's cluster: --kubeconfig")
			}
			token, err := memberToken(cmd.Context(), clients, args[0], ttl)
			if err != nil {
				return api.Errorf(api.CodeUnavailable, "%s", err).Fix("act as an admin of the broker's cluster: --kubeconfig")
			}
			if server != "" {
				config.Host = server
			}
			text, err := memberKubeconfig(args[0], config, token.Token)
			if err != nil {
				return err
			}
			fmt.Fprintf(sh.progress, "Good until %s, for cluster %s: bourse agent --broker-kubeconfig FILE\n", token.ExpirationTimestamp.UTC().Format(time.RFC3339), args[0])
			_, err = sh.out.Write(text)
			return err
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of an admin of the broker's own cluster (default: KUBECONFIG, else the pod's own service account)")
	cmd.Flags().StringVar(&server, "api-server", "", "URL at which the member reaches that cluster's API server (default: as your kubeconfig says)")
	cmd.Flags().DurationVar(&ttl, "ttl", 7*24*time.Hour, "how long the token can be used; the API server may make it less")
	return cmd
}

// bindNamespace makes the namespace of a cluster, and what lets the cluster in there. Repeating it is harmless.
func bindNamespace(ctx context.Context, c clientset.Interface, cluster string) error {
	name := objects.Namespace(cluster)
	_, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{objects.ClusterLabel: cluster, "pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var there *corev1.Namespace
		if there, err = c.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err == nil && there.Labels[objects.ClusterLabel] != cluster {
			err = fmt.Errorf("namespace %s is not of cluster %s: it has no label %s=%s", name, cluster, objects.ClusterLabel, cluster)
		}
	}
	if err != nil {
		return err
	}
	_, err = c.CoreV1().ServiceAccounts(name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: objects.Account}}, metav1.CreateOptions{})
	_, bound := c.RbacV1().RoleBindings(name).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: objects.Account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: objects.Account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: objects.Account, Namespace: name}},
	}, metav1.CreateOptions{})
	return errors.Join(unlessThere(err), unlessThere(bound))
}

func unlessThere(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// memberToken asks for a token of a member's account. It ends by itself, and with the account.
func memberToken(ctx context.Context, c clientset.Interface, cluster string, ttl time.Duration) (authenticationv1.TokenRequestStatus, error) {
	seconds := int64(ttl.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := c.CoreV1().ServiceAccounts(objects.Namespace(cluster)).CreateToken(ctx, objects.Account, request, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.TokenRequestStatus{}, err
	}
	return answer.Status, nil
}

// memberKubeconfig is a kubeconfig with nothing of its maker's but how the API server is reached.
func memberKubeconfig(cluster string, config *rest.Config, token string) ([]byte, error) {
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, err
	}
	const name = "broker"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: config.Host, CertificateAuthorityData: config.CAData, TLSServerName: config.ServerName,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{cluster: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: cluster, Namespace: objects.Namespace(cluster)}},
		CurrentContext: name,
	})
}
