package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Binaries is a folder of executables.
type Binaries struct{ dir string }

// Path of a daemon's executable.
func (b Binaries) Path(d Daemon) string { return filepath.Join(b.dir, string(d)) }

// module is a module in tools that pins programs, and the one among what it requires that gives
// them their version.
type module struct{ name, versioned string }

var (
	kubernetesModule = module{"kubernetes", "k8s.io/kubernetes"}
	liqoModule       = module{"liqo", "github.com/liqotech/liqo"}
	helmModule       = module{"helm", "helm.sh/helm/v3"}
	helm4Module      = module{"helm4", "helm.sh/helm/v4"}
)

// program is an executable and the package it is built from, one of the tools in its module's go.mod.
type program struct {
	name   Daemon
	source string
}

var kubernetesPrograms = []program{
	{Etcd, "go.etcd.io/etcd/server/v3"},
	{APIServer, "k8s.io/kubernetes/cmd/kube-apiserver"},
	{ControllerManager, "k8s.io/kubernetes/cmd/kube-controller-manager"},
	{Scheduler, "k8s.io/kubernetes/cmd/kube-scheduler"},
	{Kwok, "sigs.k8s.io/kwok/cmd/kwok"},
}

var liqoPrograms = []program{
	{LiqoControllerManager, "github.com/liqotech/liqo/cmd/liqo-controller-manager"},
	{LiqoCRDReplicator, "github.com/liqotech/liqo/cmd/crd-replicator"},
	{LiqoWebhook, "github.com/liqotech/liqo/cmd/webhook"},
	{LiqoProxy, "github.com/liqotech/liqo/cmd/proxy"},
	{LiqoIPAM, "github.com/liqotech/liqo/cmd/ipam"},
	{LiqoVirtualKubelet, "github.com/liqotech/liqo/cmd/virtual-kubelet"},
}

// Build builds the daemons of Kubernetes that are not there yet, from the versions pinned in
// tools/kubernetes. It needs Go and, the first time, some minutes and the module proxy. They are
// kept in $BOURSE_CACHE (default: bourse in os.UserCacheDir), in a folder of their own for each set
// of versions and each Go release; any such folder may be deleted. Processes that build at the same
// time wait for one another. Progress goes to the writer, a line now and then.
func Build(ctx context.Context, progress io.Writer) (Binaries, error) {
	return build(ctx, progress, kubernetesModule, kubernetesPrograms)
}

// BuildLiqo builds the daemons of Liqo likewise, as its release has them, from the version pinned
// in tools/liqo.
func BuildLiqo(ctx context.Context, progress io.Writer) (Binaries, error) {
	return build(ctx, progress, liqoModule, liqoPrograms)
}

// buildGuest builds the program that runs in machines.
func buildGuest(ctx context.Context, to string) error {
	source, err := findSource(liqoModule)
	if err != nil {
		return err
	}
	b := &builder{source: filepath.Dir(filepath.Dir(source))}
	_, err = b.goTool(ctx, "build", "-trimpath", "-ldflags=-s -w", "-o", to, "./test/lab/guest")
	return err
}

// Kubectl builds kubectl of the same version, into the same folder, and returns its path: for tests, and for users of
// a lab who have none.
func Kubectl(ctx context.Context, progress io.Writer) (string, error) {
	const kubectl = "kubectl"
	b, err := build(ctx, progress, kubernetesModule, []program{{kubectl, "k8s.io/kubernetes/cmd/kubectl"}})
	return b.Path(kubectl), err
}

// Helm builds Helm 3 from the version pinned in tools/helm, into a folder of its own, and returns its path.
func Helm(ctx context.Context, progress io.Writer) (string, error) {
	return buildHelm(ctx, progress, helmModule)
}

// Helm4 builds Helm 4 likewise, from the version pinned in tools/helm4.
func Helm4(ctx context.Context, progress io.Writer) (string, error) {
	return buildHelm(ctx, progress, helm4Module)
}

func buildHelm(ctx context.Context, progress io.Writer, m module) (string, error) {
	const helm = "helm"
	b, err := build(ctx, progress, m, []program{{helm, m.versioned + "/cmd/helm"}})
	return b.Path(helm), err
}

func build(ctx context.Context, progress io.Writer, m module, programs []program) (Binaries, error) {
	b, err := newBuilder(progress, m, programs)
	if err == nil && len(b.missing()) > 0 {
		err = b.build(ctx)
	}
	if err != nil {
		return Binaries{}, fmt.Errorf("build what a cluster runs: %w", err)
	}
	return b.out, nil
}

type builder struct {
	module   module
	source   string // the module's folder
	programs []program
	out      Binaries
	progress io.Writer
}

func newBuilder(progress io.Writer, m module, programs []program) (*builder, error) {
	source, err := findSource(m)
	if err != nil {
		return nil, err
	}
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	version := sha256.New()
	fmt.Fprintln(version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return nil, err
		}
		version.Write(content)
	}
	dir := filepath.Join(cache, fmt.Sprintf("%s-%x", m.name, version.Sum(nil)[:6]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return &builder{module: m, source: source, programs: programs, out: Binaries{dir}, progress: progress}, nil
}

// cacheDir is the folder of all that is built or fetched once.
func cacheDir() (string, error) {
	if cache := os.Getenv("BOURSE_CACHE"); cache != "" {
		return filepath.Abs(cache)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: set BOURSE_CACHE to a folder", err)
	}
	return filepath.Join(cache, "bourse"), nil
}

// findSource looks for a module of tools from the working folder upwards: a test runs in its
// package's folder.
func findSource(m module) (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		source := filepath.Join(dir, "tools", m.name)
		if _, err := os.Stat(filepath.Join(source, "go.mod")); err == nil {
			return source, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no tools/%s in %s or above: run it inside Bourse's repository", m.name, start)
		}
	}
}

// missing are the programs not built yet, by their index.
func (b *builder) missing() []int {
	var missing []int
	for i, p := range b.programs {
		if _, err := os.Stat(b.out.Path(p.name)); err != nil {
			missing = append(missing, i)
		}
	}
	return missing
}

func (b *builder) build(ctx context.Context) error {
	unlock, err := lockFolder(ctx, b.out.dir, func() {
		fmt.Fprintln(b.progress, "another process is building the same: waiting for it")
	})
	if err != nil {
		return err
	}
	defer unlock()
	flags, err := b.linkerFlags(ctx)
	if err != nil {
		return err
	}
	for _, i := range b.missing() {
		begin := time.Now()
		name := b.programs[i].name
		what := fmt.Sprintf("building %s (%d/%d)", name, i+1, len(b.programs))
		fmt.Fprintf(b.progress, "%s: done once, some minutes in all\n", what)
		stop := b.tick(what, begin)
		partial := b.out.Path("." + name + ".partial")
		_, err := b.goTool(ctx, "build", "-trimpath", "-ldflags="+flags, "-o", partial, b.programs[i].source)
		stop()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.Rename(partial, b.out.Path(name)); err != nil {
			return err
		}
		fmt.Fprintf(b.progress, "built %s in %s\n", name, since(begin))
	}
	return nil
}

// linkerFlags tell Kubernetes and Helm their versions, which their sources from the module proxy do not know.
func (b *builder) linkerFlags(ctx context.Context) (string, error) {
	version, err := b.goTool(ctx, "list", "-m", "-f", "{{.Version}}", b.module.versioned)
	switch {
	case err == nil && (b.module == helmModule || b.module == helm4Module):
		return "-s -w -X " + b.module.versioned + "/internal/version.version=" + version, nil
	case err != nil || b.module != kubernetesModule:
		return "-s -w", err
	}
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) != 3 {
		return "", fmt.Errorf("k8s.io/kubernetes has version %q, want vMAJOR.MINOR.PATCH", version)
	}
	const at = " -X k8s.io/component-base/version."
	return "-s -w" + at + "gitVersion=" + version + at + "gitMajor=" + parts[0] + at + "gitMinor=" + parts[1], nil
}

// goTool runs the go command in the module's folder and returns what it prints.
func (b *builder) goTool(ctx context.Context, args ...string) (string, error) {
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.source, &out, &said
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go then removes its temporary folder
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, said.Bytes()[max(0, said.Len()-4<<10):])
	}
	return strings.TrimSpace(out.String()), nil
}

// tick says every half minute that the build goes on, until stop is called.
func (b *builder) tick(what string, begin time.Time) (stop func()) {
	ended, silent := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(silent)
		ticker := time.NewTicker(30 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				fmt.Fprintf(b.progress, "still %s, %s so far\n", what, since(begin))
			case <-ended:
				return
			}
		}
	}()
	return func() { close(ended); <-silent }
}

func since(begin time.Time) time.Duration { return time.Since(begin).Round(time.Second) }
