package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/agent/operations/install"
	"github.com/bourse-dev/bourse/internal/identity/join"
)

// asSecrets is the output format for Secrets with tokens.
const asSecrets = "secret"

func (sh *shell) createTokenCommand() *cobra.Command {
	var clusters []string
	var ttl time.Duration
	var namespace string
	create := &cobra.Command{
		Use: "create", Short: "Create join tokens; each can be used once", Args: cobra.NoArgs,
		Long: "With -o secret, it prints for each cluster the Secret that the cluster's admin applies. An agent\n" +
			"that runs there joins with it at once.",
		Example: "  bourse broker token create\n" +
			"  bourse broker token create --cluster rome,milan --ttl 72h -o secret",
		Annotations: map[string]string{moreForms: asSecrets},
		RunE: sh.asOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			if len(clusters) == 0 {
				clusters = []string{""}
			}
			for i, cluster := range clusters {
				t, err := c.CreateToken(ctx, cluster, ttl)
				if err != nil {
					return err
				}
				if i == 0 {
					sh.warnOfLocalURL(t.Token)
				}
				if err := sh.showToken(t, cluster, namespace); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	f := create.Flags()
	f.StringSliceVar(&clusters, "cluster", nil,
		"the only cluster that may use the token; it then needs no approval. Several names make several tokens")
	durationVar(f, &ttl, "ttl", time.Hour, "how long the token is valid")
	f.StringVar(&namespace, "agent-namespace", api.Namespace, "for -o secret: namespace of the agent in the cluster")
	return create
}

// warnOfLocalURL says that a token has a URL that other clusters cannot reach.
func (sh *shell) warnOfLocalURL(text string) {
	token, err := join.ParseToken(text)
	if err != nil {
		return // of a broker with another form of tokens
	}
	if reach := join.LocalReach(token.BrokerURL); reach != "" {
		fmt.Fprintf(sh.progress, "Warning: %s can be reached %s only. Start the broker with --url https://HOST:PORT.\n",
			token.BrokerURL, reach)
	}
}

func (sh *shell) showToken(t api.TokenCreated, cluster, namespace string) error {
	if sh.output == asSecrets {
		return sh.showTokenSecret(t, cluster, namespace)
	}
	if sh.encodes() {
		return sh.encode(t)
	}
	who := "one cluster"
	if cluster != "" {
		who = "cluster " + cluster
	}
	fmt.Fprintf(sh.progress,
		"Valid until %s, for %s: bourse agent --join TOKEN\nTo make it void: bourse broker token delete %s\n",
		t.Expires.Format(time.RFC3339), who, t.ID)
	_, err := fmt.Fprintln(sh.out, t.Token)
	return err
}

// showTokenSecret prints the Secret in which a cluster's agent looks for its token.
func (sh *shell) showTokenSecret(t api.TokenCreated, cluster, namespace string) error {
	secret := install.JoinSecret(namespace, t.Token)
	secret.TypeMeta = metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Secret"}
	text, err := yaml.Marshal(secret)
	if err != nil {
		return err
	}
	who := "in any one cluster, which then waits for approval"
	if cluster != "" {
		who = "in cluster " + cluster
	}
	_, err = fmt.Fprintf(sh.out, "---\n# Token %s. Apply this %s, until %s.\n%s", t.ID, who,
		t.Expires.UTC().Format(time.RFC3339), strings.ReplaceAll(string(text), "  creationTimestamp: null\n", ""))
	return err
}
