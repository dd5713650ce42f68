package cli

import (
	"context"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/payload"
)

func (sh *shell) sharingCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "sharing", GroupID: "use", Short: "Look at what your cluster shares"}
	cmd.AddCommand(&cobra.Command{
		Use: "preview FILE", Short: "Show what a SharingPolicy would change, before you apply it",
		Long: "Preview reads a SharingPolicy or its spec from a file; - is standard input. It shows what your cluster\n" +
			"would share, what is reserved and stays, and which clusters would no longer see it. It changes nothing.",
		Example: "  bourse sharing preview policy.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: sh.asUser(func(ctx context.Context, c *cluster.Client, args []string) error {
			spec, err := readSharing(args[0])
			if err != nil {
				return err
			}
			p, err := c.PreviewSharing(ctx, spec)
			if err != nil {
				return err
			}
			if sh.encodes() {
				return sh.encode(p)
			}
			writeLines(sh.out, explain.SharingPreview(p)...)
			return nil
		}),
	})
	return cmd
}

// readSharing reads a SharingPolicy or its spec. Errors: Invalid.
func readSharing(file string) (spec api.Sharing, err error) {
	data, err := readLimited(file, maxContract, "a SharingPolicy")
	if err != nil {
		return spec, err
	}
	var kind metav1.TypeMeta
	if yaml.Unmarshal(data, &kind) == nil && kind.Kind != "" {
		var object api.SharingPolicy
		err = payload.ReadYAML(data, &object)
		spec = object.Spec
	} else {
		err = payload.ReadYAML(data, &spec)
	}
	if err != nil {
		return spec, api.Invalid("FILE", "%s does not contain a SharingPolicy: %s", file, err)
	}
	return spec, nil
}
