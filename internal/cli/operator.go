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

func (sh *shell) operatorCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "operator [FOLDER]", Short: "End the certificates of all operators, and write a new one into FOLDER", Args: cobra.MaximumNArgs(1),
		Long: "Use this command after the theft of an operator's certificate. It ends the certificates of all operators and writes a new one\n" +
			"(tls.crt, tls.key, ca.crt) into FOLDER; it overwrites these files. It works only through the broker's local socket. Without\n" +
			"FOLDER it writes no new certificate: use that if the broker has no CA of its own (--tls-cert-dir).",
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
