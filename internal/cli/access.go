package cli

import (
	"cmp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bourse-dev/bourse/api"
)

// addAccess adds the flags by which users reach a cluster as themselves. Only commands that use them have them: what
// another command ignored could act on the wrong cluster.
func (sh *shell) addAccess(f *pflag.FlagSet) {
	f.StringVar(&sh.context, "context", "",
		"context of the kubeconfig by which to reach the cluster, with your own rights")
	f.StringVar(&sh.kubeconfig, "kubeconfig", "",
		"kubeconfig by which to reach the cluster (default: KUBECONFIG, else ~/.kube/config)")
	f.StringVarP(&sh.namespace, "namespace", "n", "",
		"namespace of what the command reads and writes (default: that of the context, else \"default\")")
	f.BoolVarP(&sh.allNamespaces, "all-namespaces", "A", false,
		"all namespaces and the whole cluster, if you may; also what is lent and sold")
}

// addBrokerAccess adds the flags that name the cluster in which a broker runs.
func (sh *shell) addBrokerAccess(f *pflag.FlagSet) {
	f.StringVar(&sh.context, "context", "",
		"context of the kubeconfig of the cluster in which the broker runs, if you may create pods/exec there")
	f.StringVar(&sh.kubeconfig, "kubeconfig", "", "kubeconfig of that cluster (with --context: KUBECONFIG, else ~/.kube/config)")
	f.StringVarP(&sh.namespace, "namespace", "n", "", "namespace of the broker there (default \""+brokerNamespace+"\")")
}

// checkAccess reports flags that would name another cluster or namespace than the user means. Errors: Invalid.
func checkAccess(cmd *cobra.Command) (failed error) {
	given := func(name string) bool { f := cmd.Flag(name); return f != nil && f.Changed }
	asUser := given("context") || given("kubeconfig")
	for _, name := range []string{"context", "kubeconfig", "namespace"} {
		if given(name) && cmd.Flag(name).Value.String() == "" {
			failed = cmp.Or(failed, emptyValue(name))
		}
	}
	switch {
	case failed != nil:
		return failed
	case asUser && given("server"):
		return api.Invalid("--server", "does not go with --context and --kubeconfig").Fix("leave one of them out")
	case cmd.Flag("all-namespaces") == nil: // the command has no such flag
		return nil
	case given("namespace") && given("all-namespaces"):
		return api.Invalid("--all-namespaces", "does not go with --namespace").Fix("leave one of them out")
	}
	return nil
}
