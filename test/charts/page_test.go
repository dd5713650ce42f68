package charts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// player runs the commands of a page against real API servers. Where a command waits for pods, it runs what these
// would: the program with the arguments of the chart, as the ServiceAccount of the chart.
type player struct {
	bourse, bin, dir string
	agents           string // the namespace of the agents
	env              []string
	clusters         map[string]*lab.Cluster
	port             int
	questions        map[string]int // the port of each agent for users
}

// plainCluster is the name of a player's cluster without Liqo.
const plainCluster = "plain"

// agentPod is the pod of each agent.
const agentPod = "bourse-agent-5c9d8f7b6-x2k4q"

// prints has what commands of the page print at last, by how they start. The doctor's command fails while there is an
// Error.
var prints = []struct{ command, text string }{
	{"bourse --context milan doctor", ""},
	{"bourse --context rome -n demo reserve", "milan is bound until"},
	{"bourse --context rome -n demo reservations", "Active"},
	{"kubectl --context rome -n demo scale deployment", "scaled"},
	{"kubectl --context rome -n demo get pods", "Running"},
	{"bourse --context rome doctor", ""},
}

// TestInstallPage plays the five minutes of docs/install.md: from the broker's chart to pods of rome that run in milan,
// by the real Liqo. The image is in tools/release, and what a kubelet does in test/real.
func TestInstallPage(t *testing.T) {
	t.Parallel()
	p := newPlayer(t)
	text := string(read(t, "../../docs/install.md"))
	_, text, _ = strings.Cut(text, "\n## In five minutes\n")
	text, _, _ = strings.Cut(text, "\n## ")
	text = regexp.MustCompile(`\\\n *`).ReplaceAllString(text, "")
	commands := regexp.MustCompile(`(?m)^        (\S.*)$`).FindAllStringSubmatch(text, -1)
	played := map[string]bool{} // of prints
	for _, c := range commands {
		switch command := c[1]; {
		case strings.HasPrefix(command, "make "):
		case strings.HasPrefix(command, "export "):
			p.env = append(p.env, strings.TrimPrefix(command, "export "))
		case strings.Contains(command, "rollout status statefulset broker"):
			p.startBroker(t)
		case strings.Contains(command, "rollout status deployment bourse-agent"):
			p.startAgent(t, contextOf(command))
		default:
			want := ""
			for _, print := range prints {
				if strings.HasPrefix(command, print.command) {
					want, played[print.command] = print.text, true
				}
			}
			if strings.Contains(command, "scale deployment") { // rome has no room
				p.play(t, "kubectl --context rome cordon rome-1", "cordoned")
			}
			p.play(t, command, want)
		}
	}
	for _, print := range prints {
		if !played[print.command] {
			t.Errorf("the page has no command %q", print.command)
		}
	}
	virtual := market.SliceName("rome", "milan", api.GeneralPool)
	p.play(t, "kubectl --context rome -n demo get pods -o jsonpath='{.items[*].spec.nodeName}'",
		strings.Join(slices.Repeat([]string{virtual}, 4), " "))
	p.play(t, "kubectl --context milan -n demo-rome get pods -o jsonpath='{.items[*].status.phase}'",
		strings.Join(slices.Repeat([]string{string(corev1.PodRunning)}, 4), " "))
	// The agent is in a pod: a client without bourse forwards a port to it.
	p.play(t, "kubectl config use-context rome; sh docs/examples/ask.sh demo /clusters", `"items":[{"id":"milan"`)
}

func newPlayer(t *testing.T) *player {
	t.Helper()
	return newPlayerOf(t, api.Namespace, "hall", "milan", "rome")
}

// newPlayerOf returns a player of some clusters, whose agents are in a namespace.
func newPlayerOf(t *testing.T, agents string, names ...string) *player {
	t.Helper()
	l := lab.Test(t)
	p := &player{dir: l.Dir(), bin: t.TempDir(), agents: agents, clusters: map[string]*lab.Cluster{},
		questions: map[string]int{}}
	files := make([]string, len(names))
	for _, name := range names {
		var err error
		if p.questions[name], err = lab.FreePort(); err != nil {
			t.Fatal(err)
		}
	}
	started := make([]*lab.Cluster, len(names))
	group, ctx := errgroup.WithContext(t.Context())
	for i, name := range names {
		group.Go(func() (err error) {
			o := lab.ClusterOptions{Name: name, Light: name == "hall", Liqo: name != "hall" && name != plainCluster, Nodes: []lab.Node{{Name: name + "-1",
				Resources: corev1.ResourceList{"cpu": resource.MustParse("32"), "memory": resource.MustParse("64Gi")}}}}
			if name == "hall" { // a command in the broker's pod is one of this machine
				o.Execs = []lab.Exec{{Namespace: hallNamespace, Pod: "broker-0",
					Env: map[string]string{"BOURSE_SERVER": "unix://" + p.socket("broker")}}}
			} else { // and a port of an agent's pod is one of this machine
				o.PortForwards = []lab.PortForward{{Namespace: agents, Pod: agentPod,
					Ports: map[int]int{p.questions[name]: p.questions[name]}}}
			}
			started[i], err = l.Cluster(ctx, o)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		p.clusters[name], files[i] = started[i], started[i].Kubeconfig()
	}
	var err error
	if p.bourse, err = federation.Build(t.Context(), p.bin); err != nil {
		t.Fatal(err)
	}
	if p.port, err = lab.FreePort(); err != nil {
		t.Fatal(err)
	}
	kubectl, err := lab.Kubectl(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := helm(t, "", "version"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kubectl, filepath.Join(p.bin, "kubectl")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(built.path, filepath.Join(p.bin, "helm")); err != nil {
		t.Fatal(err)
	}
	p.env = append(os.Environ(), "KUBECONFIG="+strings.Join(files, ":"), "PATH="+p.bin+":"+os.Getenv("PATH"), "HOME="+p.dir,
		"HELM_CONFIG_HOME="+p.dir, "HELM_CACHE_HOME="+p.dir, "HELM_DATA_HOME="+p.dir)
	return p
}

func contextOf(command string) string {
	return regexp.MustCompile(`--context (\S+)`).FindStringSubmatch(command)[1]
}

// play runs a command of the page, again until it succeeds and prints a text: a moment ago an API server did not know a
// role or a kind.
func (p *player) play(t *testing.T, command, text string) {
	t.Helper()
	command = strings.ReplaceAll(command, "broker.host=broker.example.org", fmt.Sprintf("broker.host=127.0.0.1,broker.port=%d", p.port))
	eventually(t, command, func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, "sh", "-c", command)
		cmd.Dir, cmd.Env = "../..", p.env
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		if !bytes.Contains(out, []byte(text)) {
			return fmt.Errorf("it prints no %q:\n%s", text, out)
		}
		t.Logf("$ %s\n%s", command, out)
		return nil
	})
}

func (p *player) socket(name string) string { return filepath.Join(p.dir, name+".sock") }

// startBroker runs the pod of the broker's chart, and returns when its probe says that it is ready.
func (p *player) startBroker(t *testing.T) {
	t.Helper()
	var s appsv1.StatefulSet
	p.get(t, "hall", hallNamespace, "broker", &s)
	p.run(t, "broker", s.Spec.Template.Spec.Containers[0], map[string]string{"--dir": filepath.Join(p.dir, "journal"),
		"--listen": fmt.Sprintf("127.0.0.1:%d", p.port)})
	runPod(t, p.client(t, "hall"), hallNamespace, "broker-0", "hall-1", p.bourse)
}

// startAgent likewise. It names itself as Liqo would, and reaches its cluster as its ServiceAccount. stop ends it, but not
// its pod.
func (p *player) startAgent(t *testing.T, cluster string) (stop func()) {
	t.Helper()
	var d appsv1.Deployment
	p.get(t, cluster, p.agents, "bourse-agent", &d)
	account, err := p.clusters[cluster].ServiceAccount(t.Context(), p.agents, d.Spec.Template.Spec.ServiceAccountName)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(p.dir, cluster+".agent")
	if err := lab.WriteKubeconfig(kubeconfig, cluster, account); err != nil {
		t.Fatal(err)
	}
	stop = p.run(t, cluster, d.Spec.Template.Spec.Containers[0], map[string]string{}, "--cluster-id="+cluster, "--kubeconfig="+kubeconfig,
		"--allow-peer-range=127.0.0.0/8", fmt.Sprintf("--questions-listen=127.0.0.1:%d", p.questions[cluster]))
	runPod(t, p.client(t, cluster), p.agents, agentPod, cluster+"-1", p.bourse)
	return stop
}

func (p *player) client(t *testing.T, cluster string) kube.Client {
	t.Helper()
	c, err := kube.New(p.clusters[cluster].Config(), kube.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (p *player) get(t *testing.T, cluster, namespace, name string, into kube.Object) {
	t.Helper()
	if err := p.client(t, cluster).Get(t.Context(), kube.ObjectKey{Namespace: namespace, Name: name}, into); err != nil {
		t.Fatal(err)
	}
}

// run runs a container until the test ends or stop is called, with other values of some arguments, and returns when it is
// ready.
func (p *player) run(t *testing.T, name string, c corev1.Container, with map[string]string, more ...string) (stop func()) {
	t.Helper()
	probes := map[string]string{"--metrics-bind-address": "metrics", "--health-probe-bind-address": "health"}
	at := map[string]string{} // the address of each port of the container
	args := slices.Clone(c.Args)
	for i, arg := range args {
		flag, _, _ := strings.Cut(arg, "=")
		if port := probes[flag]; port != "" {
			free, err := lab.FreePort()
			if err != nil {
				t.Fatal(err)
			}
			at[port] = fmt.Sprintf("127.0.0.1:%d", free)
			with[flag] = at[port]
		}
		with["--socket"] = p.socket(name)
		if value, other := with[flag]; other {
			args[i] = flag + "=" + value
		}
	}
	log, err := os.Create(filepath.Join(p.dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(p.bourse, append(args, more...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	cmd.Env = []string{"HOME=" + p.dir, "TMPDIR=" + p.dir, "POD_NAMESPACE=" + p.agents, "POD_NAME=" + agentPod, "GOMEMLIMIT=208MiB"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(func() {
		stop()
		_ = log.Close()
		if said, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s:\n%s", name, bytes.TrimSpace(said[max(0, len(said)-4<<10):]))
		}
	})
	probe := c.ReadinessProbe.HTTPGet
	eventually(t, name+" is ready", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at[probe.Port.StrVal]+probe.Path, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if said, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", answer.Status, said)
		}
		return nil
	})
	return stop
}
