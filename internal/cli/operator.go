package cli

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/atomicfile"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
)

func (sh *shell) operatorCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "operator [FOLDER]", Short: "End all operators' certificates, and write a new one into FOLDER", Args: cobra.MaximumNArgs(1),
		Long: "Operator ends the certificates of all operators, because one was stolen, and writes a new one (tls.crt, tls.key, ca.crt) into\n" +
			"FOLDER, over what is there. It works by the broker's local socket alone. Without FOLDER it only ends them: so where the\n" +
			"broker has no CA of its own (--tls-cert-dir), and another CA issues the next one.",
		Example: "  bourse broker operator /var/lib/bourse/operator",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := sh.operator()
			if err != nil {
				return err
			}
			var key, csr []byte
			if len(args) > 0 {
				if key, err = tlsid.NewKey(); err != nil {
					return err
				}
				if csr, err = tlsid.NewCSR(key); err != nil {
					return err
				}
			}
			made, err := c.CreateOperator(cmd.Context(), csr, name)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				if err := writeOperator(args[0], key, made); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(sh.out, "Operators' certificates that were issued before %s have ended.\n", made.From.Format(time.RFC3339))
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", "admin", "the operator's name, which the broker's log shows")
	return cmd
}

// writeOperator writes a certificate as the broker's own folder has it.
func writeOperator(dir string, key []byte, made api.OperatorCertificateCreated) error {
	for _, file := range []struct{ name, data string }{{"tls.key", string(key)}, {"ca.crt", made.CA}, {"tls.crt", made.Certificate}} {
		if err := atomicfile.Write(filepath.Join(dir, file.name), []byte(file.data)); err != nil {
			return err
		}
	}
	return nil
}
