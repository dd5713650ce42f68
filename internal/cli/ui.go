package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui"
)

func (sh *shell) uiCommand() *cobra.Command {
	var address string
	var port int
	var stay, broker bool
	cmd := &cobra.Command{
		Use: "ui [PATH]", GroupID: "use", Short: "Show your cluster in the browser: what it borrows, lends, owes and needs",
		Long: "Ui serves pages on this machine, for you alone, until Ctrl-C. They read and write objects with your\n" +
			"kubeconfig, and can do what you can do. The browser opens by itself; one that does not asks for the code\n" +
			"that is printed. Each code lets one browser in. Press Enter for another one.\n" +
			"-n takes several namespaces: -n team-a,team-b. Ui remembers them for the context, and shows them again\n" +
			"without -n. -A forgets them.\n" +
			"From another machine: ssh -L, with the printed port, and http://127.0.0.1:PORT.",
		Example: "  bourse ui\n  bourse ui --context rome -n team-a,team-b\n  bourse ui /borrowing",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/"
			if len(args) > 0 {
				path = "/" + strings.TrimPrefix(args[0], "/")
			}
			logKubernetes(slog.New(slog.DiscardHandler))
			if broker {
				return sh.serveOperatorUI(cmd.Context(), path, address, port, stay)
			}
			way, err := sh.findWay().choose()
			if err == nil && !way.asUser {
				err = api.Invalid("--context", "is missing: the pages read objects, as you").
					Fix("give --kubeconfig FILE or --context NAME; or export KUBECONFIG=FILE, and unset BOURSE_SERVER")
			}
			if err != nil {
				return err
			}
			return sh.serveUI(cmd.Context(), path, address, port, stay)
		},
	}
	cmd.Flags().StringVar(&address, "address", "", "address of loopback to listen on (default: a random one of 127.0.0.0/8)")
	cmd.Flags().IntVar(&port, "port", 0, "port to listen on (default: a free one)")
	cmd.Flags().BoolVar(&broker, "broker", false,
		"show the page of a broker's operator instead: members, tokens, and what waits. --context names the cluster in which the "+
			"broker runs; without it, see bourse broker --help")
	cmd.Flags().StringVar(&sh.operatorCert, "operator-cert", "",
		"with --broker and --server: folder with an operator's tls.crt, tls.key and ca.crt")
	cmd.Flags().BoolVar(&stay, "no-open", false, "do not open the browser")
	return cmd
}

// serveUI serves the pages until ctx ends.
func (sh *shell) serveUI(ctx context.Context, path, address string, port int, stay bool) error {
	s, err := sh.startUI(ctx, address, port)
	if err != nil {
		return err
	}
	return sh.serve(ctx, s, path, stay)
}

// serveOperatorUI serves the page of a broker's operator until ctx ends.
func (sh *shell) serveOperatorUI(ctx context.Context, path, address string, port int, stay bool) error {
	if sh.allNamespaces {
		return api.Invalid("--broker", "does not go with --all-namespaces").Fix("name the broker's namespace: -n NAMESPACE")
	}
	words := []string{"--broker"}
	if sh.namespace != "" {
		words = append(words, "-n", sh.namespace)
	}
	var kubeconfig *ui.Kubeconfig
	if sh.context != "" || sh.kubeconfig != "" {
		kubeconfig = sh.kubeconfigOfUI(words...)
	}
	broker, err := sh.operator()
	if err != nil {
		return err
	}
	if _, err := broker.BrokerStatus(ctx); err != nil {
		return err
	}
	listener, err := ui.Listen(address, port)
	if err != nil {
		return err
	}
	name := cmp.Or(sh.server, brokerSocket())
	if sh.context != "" || sh.kubeconfig != "" {
		name = cmp.Or(sh.contextName(), sh.kubeconfig)
	}
	s, err := ui.StartOperator(broker, name, listener, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	s.WatchKubeconfig(kubeconfig)
	return sh.serve(ctx, s, path, stay)
}

// serve prints the link and a code, opens the browser unless it stays closed, and serves until ctx ends.
func (sh *shell) serve(ctx context.Context, s *ui.Server, path string, stay bool) error {
	fmt.Fprintf(sh.out, "%s\ncode: %s (Enter for another one, Ctrl-C to end)\n", s.URL()+strings.TrimPrefix(path, "/"), s.Code())
	if u, err := url.Parse(s.URL()); err == nil && os.Getenv("SSH_CONNECTION") != "" {
		fmt.Fprintf(sh.out, "from your own machine: ssh -L %s:%s HOST, then http://127.0.0.1:%[1]s/\n", u.Port(), u.Host)
	}
	go sh.printCodes(ctx, s)
	if !stay {
		defer openBrowser(ctx, s, path)()
	}
	return s.Serve(ctx)
}

// startUI listens for the pages of the user's cluster. They are served once Serve is called.
func (sh *shell) startUI(ctx context.Context, address string, port int) (*ui.Server, error) {
	var chosen []string // by -n; userConfig takes another namespace without it
	if sh.namespace != "" {
		chosen = strings.Split(sh.namespace, ",")
	}
	kubeconfig := sh.kubeconfigOfUI()
	config, err := sh.userConfig()
	if err != nil {
		return nil, err
	}
	listener, err := ui.Listen(address, port)
	if err != nil {
		return nil, err
	}
	namespaces := sh.namespacesOfUI(chosen, config.Host)
	s, err := ui.Start(ctx, config, listener, sh.contextName(), sh.namespace, namespaces, slog.New(slog.DiscardHandler))
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	s.WatchKubeconfig(kubeconfig)
	return s, nil
}

// namespacesOfUI returns the namespaces to show: those of -n, which are kept, else those of the last -n for the context at
// this server. With -A these are forgotten.
func (sh *shell) namespacesOfUI(chosen []string, server string) []string {
	if len(chosen) == 0 && !sh.allNamespaces {
		chosen = ui.RememberedNamespaces(sh.contextName(), server)
		if len(chosen) > 0 {
			fmt.Fprintf(sh.progress, "namespaces of the last -n: %s (others: bourse ui -n NS, all: bourse ui -A)\n",
				strings.Join(chosen, ", "))
		}
		return chosen
	}
	if err := ui.RememberNamespaces(sh.contextName(), server, chosen); err != nil {
		fmt.Fprintf(sh.progress, "warning: the next bourse ui does not know the namespaces: %s\n", err)
	}
	return chosen
}

// kubeconfigOfUI reads the kubeconfig to notice later changes. Call it before the pages read it: a change in between is
// noticed, too. words are flags with which the pages are started again.
func (sh *shell) kubeconfigOfUI(words ...string) *ui.Kubeconfig {
	restart := append(api.Command{"bourse", "ui"}, words...)
	if sh.kubeconfig != "" {
		restart = append(restart, "--kubeconfig", sh.kubeconfig)
	}
	name := sh.contextName()
	if name != "" {
		restart = append(restart, "--context", name)
	}
	return ui.NewKubeconfig(sh.loadingRules().GetLoadingPrecedence(), name, restart)
}

// printCodes prints a code for each line that the user enters.
func (sh *shell) printCodes(ctx context.Context, s *ui.Server) {
	if !terminal(os.Stdin) {
		return
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan() && ctx.Err() == nil; {
		fmt.Fprintf(sh.out, "code: %s\n", s.Code())
	}
}

// openBrowser has the user's browser open a file that logs it in. The file is removed after a minute. Where there is no
// browser, the user opens the link. The function that it returns removes the file at once.
func openBrowser(ctx context.Context, s *ui.Server, path string) (remove func()) {
	open := map[string]string{"darwin": "open", "windows": "explorer"}[runtime.GOOS]
	if open == "" {
		open = "xdg-open"
	}
	shown := runtime.GOOS != "linux" || os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
	program, err := exec.LookPath(open)
	if err != nil || !shown || os.Getenv("SSH_CONNECTION") != "" {
		return func() {}
	}
	file, err := s.WriteLogin(filepath.Join(RuntimeDir(), "ui"), path)
	if err != nil {
		return func() {}
	}
	remove = func() { _ = os.Remove(file) }
	time.AfterFunc(time.Minute, remove)
	_ = exec.CommandContext(ctx, program, file).Start()
	return remove
}
