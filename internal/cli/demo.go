package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/payload"
	"github.com/bourse-dev/bourse/internal/sim"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/ui"
)

func (sh *shell) demoCommand() *cobra.Command {
	var lasts time.Duration
	var still bool
	var log logFlags
	cmd := &cobra.Command{
		Use: "demo", GroupID: "run", Short: "Run a demo federation of six simulated clusters", Args: cobra.NoArgs,
		Long: "A real broker (journal, TLS, keys) and six real agents run in this process, over simulated clusters. The\n" +
			"demo prints a kubeconfig for each cluster: use it in another terminal with bourse and kubectl. Ctrl-C ends\n" +
			"the demo and removes its files.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger := slog.New(slog.DiscardHandler)
			if cmd.Flags().Changed("log-level") {
				var err error
				if logger, err = log.logger(sh.progress); err != nil {
					return err
				}
			}
			logKubernetes(logger)
			return sh.demo(cmd.Context(), lasts, still, logger)
		},
	}
	durationVar(cmd.Flags(), &lasts, "for", 0, "how long the demo runs (default: until Ctrl-C)")
	cmd.Flags().BoolVar(&still, "still", false,
		"simulate no events; without it, pods come and go each second, and nodes fail from time to time")
	log.add(cmd.Flags())
	return cmd
}

// demoMembers are rome, for which the commands act, and five providers. One of them is not visible to rome. One is a
// hub: rome's pods that have no room at home run there.
func demoMembers(socket string) []*federation.Member {
	share := func(terms api.Terms, percentage int32, labels map[string]string) *api.Sharing {
		return &api.Sharing{Terms: terms, Labels: labels,
			Pools: []api.PoolPolicy{{Name: api.GeneralPool, Percentage: &percentage}}}
	}
	small := api.Terms{MaxPerReservation: demoResources("cpu", "32")}
	return []*federation.Member{
		{Options: sim.Options{Name: "rome", Region: "eu", Nodes: 2, CPU: 8, Memory: 32}, Socket: socket,
			Work: federation.NewWork("shop", 12, demoResources("cpu", "2", "memory", "4Gi")),
			Pools: map[string]api.VirtualNodePoolSpec{"burst": {
				Namespaces: []string{"shop"}, Max: demoResources("cpu", "24", "memory", "48Gi"),
				PendingFor: &metav1.Duration{Duration: time.Second}, Providers: api.PoolProviders{Only: []string{"zurich"}},
			}}},
		{Options: sim.Options{Name: "milan", Region: "eu", Nodes: 4,
			CPU: 32, Memory: 128, GPU: "NVIDIA-A100-SXM4-80GB", GPUs: 4, Pods: 30},
			Connector: true,
			Sharing:   share(api.Terms{}, 80, map[string]string{"tier": "gold"}),
			Offers: map[string]api.OfferSpec{
				"web": {Type: "compute", Description: "Small machines for web services, by the hour.", Plans: []api.Plan{
					demoPlan("small", "0.08", api.PeriodHour, "cpu", "2", "memory",
						"4Gi"), demoPlan("large", "49.90", api.PeriodMonth, "cpu", "8", "memory", "16Gi"),
				}},
				"training": {Type: "gpu", Plans: []api.Plan{demoPlan("a100",
					"1.95", api.PeriodHour, "cpu", "8", "memory", "32Gi", "nvidia.com/gpu", "1")}},
				"reviewed": {Type: "compute", Description: "An admin of milan looks at each buyer.",
					ApproveWithin: &metav1.Duration{Duration: 12 * time.Hour}, Plans: []api.Plan{
						demoPlan("rack", "1.20", api.PeriodHour, "cpu", "16", "memory", "64Gi")}},
			}},
		{Options: sim.Options{Name: "paris", Region: "eu", Nodes: 6, Pods: 30},
			Sharing: share(small, 60, map[string]string{"tier": "silver"}),
			Offers: map[string]api.OfferSpec{"campus": {Type: "compute",
				Description: "Free for the federation, a day at most.", Plans: []api.Plan{
					{Name: "day", Resources: demoResources("cpu", "2", "memory", "4Gi"),
						Quantity: 4, MaxDuration: &metav1.Duration{Duration: 24 * time.Hour}},
				}}}},
		{Options: sim.Options{Name: "austin", Region: "us", Nodes: 8,
			CPU: 64, Memory: 256, GPU: "NVIDIA-H100-80GB-HBM3", GPUs: 8, Pods: 60},
			Sharing: share(api.Terms{Relend: true}, 50, map[string]string{"tier": "gold"})},
		{Options: sim.Options{Name: "zurich", Region: "eu", Nodes: 1},
			Sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool, VirtualNodes: &api.VirtualNodes{
				Selector: api.VirtualNodeSelector{MatchLabels: map[string]string{api.VirtualNodePoolLabel: "upstream"}}}}}},
			Pools: map[string]api.VirtualNodePoolSpec{"upstream": {
				Demand: api.DemandFixed, Min: demoResources("cpu", "32", "memory", "64Gi"),
				Max: demoResources("cpu", "32", "memory", "64Gi"), Template: api.ReservationTemplate{Relend: true},
			}}},
		{Options: sim.Options{Name: "geneva", Region: "eu", Nodes: 3, Pods: 10},
			Sharing: share(api.Terms{VisibleTo: api.Audience{Clusters: []string{"paris"}}}, 50, nil)},
	}
}

func demoPlan(name, amount string, period api.Period, resources ...string) api.Plan {
	return api.Plan{Name: name, Resources: demoResources(resources...), Units: &api.Units{Min: 1, Max: 8}, Quantity: 8,
		Price: &api.Price{Amount: amount, Currency: "EUR", Period: period}}
}

func demoResources(pairs ...string) api.Resources {
	out := api.Resources{}
	for i := 0; i < len(pairs); i += 2 {
		amount, err := payload.ParseQuantity(pairs[i+1])
		if err != nil {
			panic(err) // a mistake in the demo
		}
		out[resourceName(pairs[i])] = amount
	}
	return out
}

// demo runs until ctx ends, or, where lasts is not 0, for that long from when all of it runs.
func (sh *shell) demo(ctx context.Context, lasts time.Duration, still bool, log *slog.Logger) error {
	if c, err := net.Dial("unix", agentSocket()); err == nil {
		_ = c.Close()
		return api.Errorf(api.CodeConflict, "an agent already listens at %s", agentSocket()).
			Fix("stop it first (another demo, for instance), or set XDG_RUNTIME_DIR to another folder")
	}
	dir, err := os.MkdirTemp("", "bourse-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintln(sh.progress, "starting a broker and six agents ...")
	f, err := federation.Start(ctx, dir, log, demoMembers(agentSocket())...)
	if err == nil {
		if lasts > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, lasts)
			defer cancel()
		}
		if err = writeDemoKubeconfigs(ctx, f); err == nil {
			err = sh.playWithUI(ctx, f, still)
		}
		if stopped := f.Stop(); err == nil {
			err = stopped
		}
	}
	_ = os.RemoveAll(filepath.Dir(demoKubeconfig("")))
	_ = os.Remove(filepath.Dir(agentSocket())) // only if nobody else uses it
	if ctx.Err() != nil {
		fmt.Fprintln(sh.progress, "\nthe demo ended; its files are removed")
		return nil
	}
	return err
}

// demoKubeconfig is the file by which users of the demo reach a cluster.
func demoKubeconfig(cluster string) string {
	return filepath.Join(RuntimeDir(), "demo", cluster+".kubeconfig")
}

// writeDemoKubeconfigs writes a kubeconfig for each cluster: for its admin, and for ann, a user of namespace team. It
// makes the namespaces that these users see.
func writeDemoKubeconfigs(ctx context.Context, f *federation.Federation) error {
	if err := os.MkdirAll(filepath.Dir(demoKubeconfig("")), 0o700); err != nil {
		return err
	}
	for name, m := range f.Members {
		for _, namespace := range []string{api.Namespace, "team"} {
			o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
			if err := m.Objects.Create(ctx, o); err != nil {
				return err
			}
		}
		if err := f.WriteKubeconfig(demoKubeconfig(name), m, kubeapi.User{Name: "ann", Namespace: "team"}); err != nil {
			return err
		}
	}
	return nil
}

// playWithUI plays the demo beside the web UI of rome, for its admin.
func (sh *shell) playWithUI(ctx context.Context, f *federation.Federation, still bool) error {
	pages := *sh
	pages.kubeconfig, pages.context, pages.namespace = demoKubeconfig("rome"), "", ""
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	served, err := pages.startUI(ctx, "", 0)
	if err != nil {
		cancel()
		return err
	}
	go func() { ended <- served.Serve(ctx) }()
	err = sh.play(ctx, f, still, served)
	cancel()
	return cmp.Or(err, <-ended)
}

// play makes a few reservations and then shows the market until ctx ends.
func (sh *shell) play(ctx context.Context, f *federation.Federation, still bool, pages *ui.Server) error {
	rome := f.Members["rome"].People
	for seen := 0; seen < 3; {
		if clusters, err := rome.Clusters(ctx); err == nil {
			seen = 0
			for _, c := range clusters {
				if c.Payload.Fresh && len(c.Payload.Pools) > 0 {
					seen++
				}
			}
		}
		if pause(ctx, 100*time.Millisecond) {
			return nil
		}
	}
	fmt.Fprintf(sh.out, demoIntroduction, f.URL, demoKubeconfig("rome"), demoKubeconfig("milan"))
	for _, args := range demoCommands {
		fmt.Fprintf(sh.out, "\n$ bourse %s\n", strings.Join(args, " "))
		words := make([]string, 0, len(args)+2)
		for _, arg := range args {
			words = append(words, strings.Trim(arg, "'")) // the quotes are the shell's
		}
		if args[0] != "propose" {
			words = append(words, "--timeout", "10s")
		}
		if err := asRome(ctx, sh.out, sh.out, words...); err != nil && ctx.Err() == nil {
			writeError(sh.out, err)
		}
	}
	sh.showBurst(ctx, rome)
	if !still {
		f.Live(ctx, time.Second)
	}
	defer openBrowser(ctx, pages, "/")()
	return sh.market(ctx, pages)
}

// showBurst shows rome's VirtualNodePool once pods run at the hub, which it waits for up to 10 seconds.
func (sh *shell) showBurst(ctx context.Context, rome *cluster.Client) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) &&
		ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		all, err := rome.VirtualNodePools(ctx)
		if err != nil || len(all) == 0 || all[0].Payload.Status.Used.Cpu().IsZero() {
			continue
		}
		fmt.Fprint(sh.out, "\n$ bourse vnp\n")
		_ = asRome(ctx, sh.out, sh.progress, "vnp")
		return
	}
}

// demoCommands are what the demo does as a user of rome.
var demoCommands = [][]string{
	{"reserve", "--name", "web", "--cpu", "4", "--memory", "8Gi", "--where", `'region == "eu"'`, "--for", "1h0m0s"},
	{"reserve", "--name", "training", "--cpu", "8", "--gpu", "2",
		"--where", `'"NVIDIA-A100-SXM4-80GB" in gpus'`, "--for", "2h0m0s"},
	{"reserve", "--name", "too-much", "--cpu", "500", "--memory", "1Gi"},
	{"buy", "milan/web/large", "--name", "office", "--for", "720h"},
	{"buy", "milan/reviewed/rack", "--name", "night-run", "--for", "6h", "--no-wait"},
	{"propose", "milan/web/large", "--price", "39EUR/month", "--for", "720h"},
}

// asRome runs a command as a user of rome.
func asRome(ctx context.Context, out, progress io.Writer, args ...string) error {
	root := Root(out, progress)
	root.SetArgs(append(args, "--kubeconfig", demoKubeconfig("rome")))
	return root.ExecuteContext(ctx)
}

const demoIntroduction = `
A broker runs at %s, with agents in the clusters rome,
milan, paris, austin, zurich and geneva. zurich is a hub: it lends what it
borrows from austin. In another terminal, as the admin of rome:

    export KUBECONFIG=%s
    bourse clusters
    bourse reserve --cpu 4 --memory 8Gi --where 'region == "eu"' --for 1h
    bourse reserve --cpu 40 --memory 8Gi --dry-run
    bourse catalog --for 8h --sort price
    bourse buy milan/web/small --units 2 --for 8h
    bourse contracts
    bourse propose milan/web/small --price 0.06EUR/hour --for 48h
    bourse proposals
    bourse reservations
    bourse vnp
    bourse vnp why burst
    bourse why RESERVATION
    bourse release RESERVATION
    kubectl get resourcerequests
    kubectl describe resourcerequest web
    kubectl events

As ann, who may use namespace team of rome and nothing else:

    bourse --context rome-ann reserve --cpu 1 --for 1h
    kubectl --context rome-ann get resourcerequests

As the admin of milan, or of another cluster in the same way:

    export KUBECONFIG=%s
    bourse offer list
    bourse proposals
    bourse accept PROPOSAL
    bourse reservations
    bourse evict rome

These API servers are simulated. They check the fields of objects, but no rules
in CEL and no admission policies. They have no roles, and no pods run.
`

// market shows the market until ctx ends: each second on a terminal, else every 15 seconds.
func (sh *shell) market(ctx context.Context, pages *ui.Server) error {
	every, clear := 15*time.Second, func() {}
	if s, ok := sh.out.(screen); ok {
		every, clear = time.Second, s.clear
	}
	for {
		var page bytes.Buffer
		_ = asRome(ctx, &page, io.Discard, "clusters")
		fmt.Fprintln(&page)
		_ = asRome(ctx, &page, io.Discard, "reservations")
		if ctx.Err() == nil {
			clear()
			fmt.Fprintf(sh.out, "\nthe market as rome sees it, %s (Ctrl-C ends the demo)\nin the browser: %s with code %s\n\n%s",
				time.Now().Format(time.TimeOnly), pages.URL(), pages.Code(), page.String())
		}
		if pause(ctx, every) {
			return nil
		}
	}
}

// pause waits, and reports whether ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return true
	case <-time.After(d):
		return false
	}
}
