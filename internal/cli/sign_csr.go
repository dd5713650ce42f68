package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
)

// maxCSR is far more bytes than any certificate request has.
const maxCSR = 64 << 10

func (sh *shell) signCSRCommand() *cobra.Command {
	var cluster string
	var life time.Duration
	cmd := &cobra.Command{
		Use: "sign-csr FILE --cluster ID", Short: "Sign the certificate of a cluster that runs an agent of a prototype", Args: cobra.ExactArgs(1),
		Long: "FILE (- is standard input) contains a certificate request. The member made it with a key that never leaves its cluster. The\n" +
			"command prints two certificates in PEM: that of the agent, and that of the CA, with which the agent verifies the broker.\n" +
			"The certificate names the cluster that you give with --cluster, not the one in the request. It is a client certificate. It\n" +
			"is void once the cluster has joined with a key of its own. The broker needs its built-in CA and --broker-interface http.\n" +
			"To end the certificate early: bourse broker revoke.",
		Example: "  there  openssl req -new -newkey rsa:2048 -nodes -keyout tls.key -subj /CN=cluster-1 -out cluster-1.csr\n" +
			"  here   bourse broker sign-csr cluster-1.csr --cluster cluster-1 > tls.crt\n" +
			"  here   bourse broker sign-csr cluster-1.csr --cluster cluster-1 --duration 720h -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cluster == "" {
				return api.Invalid("--cluster", "the certificate must name a cluster").
					Fix("give its ID: the --cluster-id of its agent")
			}
			request, err := readSmall(args[0])
			if err != nil {
				return err
			}
			c, err := sh.operator()
			if err != nil {
				return err
			}
			made, err := c.SignCSR(cmd.Context(), cluster, request, life)
			if err != nil {
				return err
			}
			if sh.output == "json" || sh.output == "yaml" {
				return sh.encode(made)
			}
			fmt.Fprintf(sh.progress, "Valid until %s, for %s. The second certificate is the CA's: the agent's ca.crt.\n",
				made.Expires.Format(time.RFC3339), cluster)
			_, err = fmt.Fprint(sh.out, made.Certificate)
			return err
		},
	}
	cmd.Flags().StringVar(&cluster, "cluster", "", "ID of the cluster: the --cluster-id of its agent (required)")
	durationVar(cmd.Flags(), &life, "duration", 8760*time.Hour, "how long the certificate is valid, at most 8760h")
	return cmd
}

// readSmall reads a small text from a file or from standard input.
func readSmall(file string) (string, error) {
	in := io.Reader(os.Stdin)
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", api.Invalid("FILE", "%s", err).Fix("name a file with a certificate request")
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxCSR+1))
	if err == nil && len(data) > maxCSR {
		err = fmt.Errorf("%s is larger than %d bytes", file, maxCSR)
	}
	if err != nil {
		return "", api.Invalid("FILE", "%s", err).Fix("name a file with a certificate request")
	}
	return string(data), nil
}
