package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity"
	"github.com/bourse-dev/bourse/internal/identity/atomicfile"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
)

func (sh *shell) rootCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "root", GroupID: "run", Short: "Confirm the keys of a federation's clusters with one key that is kept offline",
		Long: "Without a root, every admin confirms the key of every other cluster. With a root, one trusted person\n" +
			"signs which key each cluster has. Agents with --trust-root trust these endorsements. A cluster shows its\n" +
			"own with --endorsement.",
	}
	cmd.AddCommand(sh.rootCreateCommand(), sh.rootEndorseCommand())
	return cmd
}

func (sh *shell) rootCreateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "create FILE", Short: "Create a root's key in a file, and print its public key", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := os.Lstat(args[0]); !errors.Is(err, fs.ErrNotExist) {
				return api.Errorf(api.CodeConflict, "%s already exists", args[0]).
					Fix("name another file: the key of a root is not replaced")
			}
			key, err := clusterkey.New(rand.Reader)
			if err != nil {
				return err
			}
			text, err := key.PEM()
			if err != nil {
				return err
			}
			if err := atomicfile.Write(args[0], text); err != nil {
				return err
			}
			fmt.Fprintf(sh.progress, "%s contains the root's private key: keep it offline. Agents trust it with --trust-root:\n",
				args[0])
			_, err = fmt.Fprintln(sh.out, key.Public())
			return err
		},
	}
}

func (sh *shell) rootEndorseCommand() *cobra.Command {
	var file string
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "endorse CLUSTER FINGERPRINT", Short: "Sign which key a cluster has, and print the endorsement",
		Args:    cobra.ExactArgs(2),
		Example: "  bourse root endorse --key root.pem milan SHA256:... > milan.endorsement",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := market.ValidCluster("CLUSTER", args[0]); err != nil {
				return err
			}
			if _, err := identity.ParseFingerprint(args[1]); err != nil {
				return api.Errorf(api.CodeInvalid, "%s", err).Fix("copy the fingerprint that `bourse status` prints at %s", args[0])
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return api.Invalid("--key", "%s", err).Fix("name the file that `bourse root create` wrote")
			}
			key, err := clusterkey.ParsePEM(text)
			if err != nil {
				return api.Invalid("--key", "%s", err).Fix("name the file that `bourse root create` wrote")
			}
			now := time.Now().UTC().Truncate(time.Second)
			document, err := key.Sign(api.DocumentEndorsement, api.Endorsement{
				Protocol: api.Protocol, Cluster: args[0], Fingerprint: args[1],
				Issued: metav1.NewTime(now), Expires: metav1.NewTime(now.Add(lasts)),
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(sh.out, document)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "key", "", "file with the root's private key")
	durationVar(cmd.Flags(), &lasts, "for", 365*24*time.Hour, "how long the endorsement is valid")
	_ = cmd.MarkFlagRequired("key")
	return cmd
}
