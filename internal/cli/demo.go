package cli

import "github.com/spf13/cobra"

func (sh *shell) demoCommand() *cobra.Command { return &cobra.Command{Use: "demo"} }
