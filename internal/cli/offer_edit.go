package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/match"
)

func (sh *shell) offerEditCommand() *cobra.Command {
	file := ""
	cmd := &cobra.Command{
		Use:   "edit NAME",
		Short: "Change an offer, in your editor ($EDITOR) or from a file; existing contracts keep their terms",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: complete(sh.agentClient, ownOfferNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return sh.changeOffer(cmd.Context(), args[0], func(spec *api.OfferSpec) (err error) {
				if file != "" {
					*spec, err = readOffer(file)
					return err
				}
				return editOffer(cmd.Context(), spec)
			})
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with an Offer or its spec, as YAML; - is standard input")
	return cmd
}

// editOffer opens an offer in the user's editor. It keeps a file that it cannot read, for another try.
func editOffer(ctx context.Context, spec *api.OfferSpec) error {
	words := strings.Fields(os.Getenv("EDITOR"))
	if len(words) == 0 {
		return api.Invalid("$EDITOR", "is empty").
			Fix("name your editor: EDITOR=vi bourse offer edit NAME; or give a file: -f")
	}
	data, err := yaml.Marshal(*spec)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp("", "offer-*.yaml")
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Close()
	}
	if err == nil {
		run := exec.CommandContext(ctx, words[0], append(words[1:], f.Name())...)
		run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
		err = run.Run()
	}
	if err != nil {
		return err
	}
	if *spec, err = readOffer(f.Name()); err != nil {
		return fmt.Errorf("%w; your text is in %s: correct it, then use -f", err, f.Name())
	}
	return os.Remove(f.Name())
}

// changeOffer applies change to an offer of this cluster, and writes it.
func (sh *shell) changeOffer(ctx context.Context, name string, change func(*api.OfferSpec) error) error {
	c, err := sh.agentClient()
	if err != nil {
		return err
	}
	made, err := c.EditOffer(ctx, name, func(spec *api.OfferSpec) error {
		if err := change(spec); err != nil {
			return err
		}
		return match.New().CheckAccept(spec.Accept)
	})
	if err != nil {
		return err
	}
	return sh.awaitOffer(ctx, c, made)
}
