package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/operations/doctor"
	"github.com/bourse-dev/bourse/internal/health"
)

func (sh *shell) doctorCommand() *cobra.Command {
	var preflight bool
	var liqoNamespace string
	cmd := &cobra.Command{
		Use: "doctor", GroupID: "use", Short: "Find the problems of this cluster, with a fix for each", Args: cobra.NoArgs,
		Long: "The doctor checks Liqo, the admission policies that protect a provider, the keys of other clusters, the\n" +
			"peerings, the clocks, the certificates and the broker. It changes nothing. With --preflight it checks a\n" +
			"cluster through a kubeconfig, before anything of Bourse is installed. The exit code is 5 if there is an\n" +
			"Error: the doctor found at least one Error. docs/reference/problems.md explains each code.",
		Example: "  bourse doctor\n  bourse doctor --preflight --kubeconfig ~/.kube/config",
		RunE: func(cmd *cobra.Command, _ []string) error {
			diagnose := sh.diagnose
			if preflight {
				diagnose = func(ctx context.Context) (api.Diagnosis, error) {
					config, err := sh.userConfig()
					if err != nil {
						return api.Diagnosis{}, err
					}
					return doctor.Preflight(ctx, config, liqoNamespace)
				}
			}
			d, err := diagnose(cmd.Context())
			if err != nil {
				return err
			}
			return sh.showDiagnosis(d)
		},
	}
	cmd.Flags().BoolVar(&preflight, "preflight", false,
		"check a cluster through a kubeconfig, before anything is installed")
	cmd.Flags().StringVar(&liqoNamespace, "liqo-namespace", "liqo", "namespace of Liqo, for --preflight")
	return cmd
}

func (sh *shell) diagnose(ctx context.Context) (api.Diagnosis, error) {
	c, err := sh.agentClient()
	if err != nil {
		return api.Diagnosis{}, err
	}
	return c.Diagnose(ctx)
}

func (sh *shell) showDiagnosis(d api.Diagnosis) error {
	if sh.encodes() {
		if err := sh.encode(d); err != nil {
			return err
		}
	} else {
		for _, p := range d.Problems {
			fmt.Fprintf(sh.out, "%-8s %s\n", p.Severity, strings.TrimSpace(p.Code+"  "+p.Subject))
			fmt.Fprintf(sh.out, "         %s\n", p.Detail)
			if p.Remedy != "" {
				fmt.Fprintf(sh.out, "         fix: %s\n", p.Remedy)
			}
		}
		if len(d.Problems) == 0 {
			fmt.Fprintln(sh.out, "No problems found.")
		}
	}
	if health.Worst(d.Problems) == api.SeverityError {
		return api.Errorf(api.CodeConflict, "the doctor found at least one Error").
			Fix("each code is explained in docs/reference/problems.md")
	}
	return nil
}
