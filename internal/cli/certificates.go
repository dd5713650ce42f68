package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/atomicfile"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

// maxCSR is far more bytes than any certificate request has.
const maxCSR = 64 << 10

func (sh *shell) signCSRCommand() *cobra.Command {
	var cluster string
	var life time.Duration
	cmd := &cobra.Command{
		Use: "sign-csr FILE --cluster ID", Short: "Sign the certificate of a cluster that runs an agent of a prototype",
		Args: cobra.ExactArgs(1),
		Long: "FILE (- is standard input) contains a certificate request. The member made it with a key that never\n" +
			"leaves its cluster. The command prints two certificates in PEM: that of the agent, and that of the CA,\n" +
			"with which the agent verifies the broker. The certificate names the cluster that you give with\n" +
			"--cluster, not the one in the request. It is a client certificate. It is void once the cluster has\n" +
			"joined with a key of its own. The broker needs its built-in CA and --broker-interface http. To end the\n" +
			"certificate early: bourse broker revoke.",
		Example: "  there  openssl req -new -newkey rsa:2048 -nodes -keyout tls.key -subj /CN=cluster-1 " +
			"-out cluster-1.csr\n" +
			"  here   bourse broker sign-csr cluster-1.csr --cluster cluster-1 > tls.crt\n" +
			"  here   bourse broker sign-csr cluster-1.csr --cluster cluster-1 --duration 720h -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cluster == "" {
				return api.Invalid("--cluster", "the certificate must name a cluster").
					Fix("give its ID: the --cluster-id of its agent")
			}
			request, err := readLimited(args[0], maxCSR, "a certificate request")
			if err != nil {
				return err
			}
			c, err := sh.operator()
			if err != nil {
				return err
			}
			made, err := c.SignCSR(cmd.Context(), cluster, string(request), life)
			if err != nil {
				return err
			}
			if sh.encodes() {
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

func (sh *shell) operatorCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "operator [FOLDER]", Short: "End the certificates of all operators, and write a new one into FOLDER",
		Args: cobra.MaximumNArgs(1),
		Long: "Use this command after the theft of an operator's certificate. It ends the certificates of all operators\n" +
			"and writes a new one (tls.crt, tls.key, ca.crt) into FOLDER; it overwrites these files. It works only\n" +
			"through the broker's local socket. Without FOLDER it writes no new certificate: use that if the broker\n" +
			"has no CA of its own (--tls-cert-dir).",
		Example: "  bourse broker operator /var/lib/bourse/operator",
		RunE: sh.asOperator(func(ctx context.Context, c *client.Client, args []string) (err error) {
			var key, csr []byte
			if len(args) > 0 {
				if key, err = tlsid.NewKey(); err != nil {
					return err
				}
				if csr, err = tlsid.NewCSR(key); err != nil {
					return err
				}
			}
			made, err := c.CreateOperator(ctx, csr, name)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				if err := writeOperator(args[0], key, made); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(sh.out, "The operators' certificates issued before %s have ended.\n",
				made.From.Format(time.RFC3339))
			if len(args) > 0 {
				fmt.Fprintf(sh.progress, "A new one is in the folder %s.\n", args[0])
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&name, "name", "admin", "name of the operator in the broker's log")
	return cmd
}

// writeOperator writes a certificate into a folder with the same layout as the broker's own.
func writeOperator(dir string, key []byte, made api.OperatorCertificateCreated) error {
	for _, file := range []struct{ name, data string }{{"tls.key", string(key)},
		{"ca.crt", made.CA}, {"tls.crt", made.Certificate}} {
		if err := atomicfile.Write(filepath.Join(dir, file.name), []byte(file.data)); err != nil {
			return err
		}
	}
	return nil
}
