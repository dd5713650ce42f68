package liqo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// world is a federation of three clusters: rome and milan lend and borrow, paris lends.
type world struct {
	*federation.Federation
	lab                *lab.Lab
	rome, milan, paris *federation.Member
	metrics            string   // address of the metrics of the agent of paris
	installed          []string // what of Bourse is installed in all its clusters, before any test
	spent              bool     // no other test can use it
}

// worlds are the running federations. A test has one for itself until it ends, so there are as many
// as -parallel allows tests at the same time. Each takes 2 GB of memory and, because its tests
// mostly wait, a quarter of a core.
var worlds struct {
	mu   sync.Mutex
	idle []*world
	err  error // why one did not start
}

// start returns a federation that no other test uses until this one ends.
func start(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("starts three Kubernetes clusters with Liqo")
	}
	t.Parallel()
	w, err := takeWorld()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := w.crashed()
		if err != nil {
			t.Error(err)
		}
		if left := w.left(t); len(left) > 0 {
			t.Errorf("the next test in this federation finds what this one changed: %q", left)
		}
		if t.Failed() || w.spent {
			if err := w.stop(!t.Failed()); err != nil {
				t.Error(err)
			}
			return
		}
		worlds.mu.Lock()
		defer worlds.mu.Unlock()
		worlds.idle = append(worlds.idle, w)
	})
	return w
}

// takeWorld returns an idle federation, or starts one. It starts none after one failed to start.
func takeWorld() (*world, error) {
	worlds.mu.Lock()
	err := worlds.err
	if last := len(worlds.idle) - 1; last >= 0 {
		w := worlds.idle[last]
		worlds.idle = worlds.idle[:last]
		worlds.mu.Unlock()
		return w, nil
	}
	worlds.mu.Unlock()
	if err != nil {
		return nil, err
	}
	w := &world{}
	if err := w.start(context.Background()); err != nil {
		err = errors.Join(err, w.stop(false))
		worlds.mu.Lock()
		defer worlds.mu.Unlock()
		worlds.err = err
		return nil, err
	}
	return w, nil
}

// left lists what of Bourse a test installed or removed in a cluster, and did not undo.
func (w *world) left(t *testing.T) []string {
	if t.Failed() || w.spent {
		return nil
	}
	now, err := w.installedNow(context.Background())
	if err != nil {
		t.Error(err)
	}
	left := sets.New(now...).SymmetricDifference(sets.New(w.installed...))
	return sets.List(left)
}

// installedNow lists the permissions and the policies of agents and brokers in all clusters, as CLUSTER KIND/NAME.
func (w *world) installedNow(ctx context.Context) (names []string, err error) {
	for _, m := range w.Members {
		for _, list := range []kube.ObjectList{
			&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{},
			&admissionv1.ValidatingAdmissionPolicyList{}, &admissionv1.ValidatingAdmissionPolicyBindingList{},
		} {
			if err := m.Objects.List(ctx, list); err != nil {
				return nil, err
			}
			err := meta.EachListItem(list, func(o runtime.Object) error {
				if name := o.(kube.Object).GetName(); strings.HasPrefix(name, "bourse-") {
					names = append(names, fmt.Sprintf("%s %T/%s", m.Name, o, name))
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return names, nil
}

// binDir is where binary builds the program that all federations run.
var binDir string

var binary = sync.OnceValues(func() (string, error) { return federation.Build(context.Background(), binDir) })

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // clients report what these tests do to them
	ctrllog.SetLogger(logr.Discard())
	var err error
	if binDir, err = os.MkdirTemp("", "bourse-liqo-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	for _, w := range worlds.idle {
		if err := w.stop(true); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	_ = os.RemoveAll(binDir)
	os.Exit(code)
}

// start starts the clusters and the broker.
func (w *world) start(ctx context.Context) error {
	bourse, err := binary()
	if err != nil {
		return err
	}
	port, err := lab.FreePort()
	if err != nil {
		return err
	}
	w.metrics = fmt.Sprintf("127.0.0.1:%d", port)
	if w.lab, err = lab.Start(ctx, lab.Options{Progress: os.Stderr, Keep: true}); err != nil {
		return err
	}
	w.rome, w.milan, w.paris = member("rome", "it"), member("milan", "it"), member("paris", "fr")
	w.paris.AgentFlags = append(w.paris.AgentFlags, "--metrics-bind-address", w.metrics)
	w.Federation, err = federation.Start(ctx, federation.Options{
		Lab: w.lab, Binary: bourse, Progress: os.Stderr, Members: []*federation.Member{w.rome, w.milan, w.paris},
		BrokerFlags: []string{"--with-orchestrator"},
	})
	if err != nil {
		return err
	}
	w.installed, err = w.installedNow(ctx)
	return err
}

// crashed returns why a daemon, the broker or an agent ended that no test killed. It returns nil if none did.
func (w *world) crashed() error {
	select {
	case err := <-w.Crashes():
		return errors.Join(w.lab.Err(), err)
	default:
		return w.lab.Err()
	}
}

// stop ends all processes. It keeps the logs unless passed.
func (w *world) stop(passed bool) error {
	if w.lab == nil {
		return nil
	}
	var err error
	if w.Federation != nil {
		err = w.crashed()
		w.Stop()
	}
	err = errors.Join(err, w.lab.Stop())
	if passed && err == nil {
		return os.RemoveAll(w.lab.Dir())
	}
	fmt.Fprintf(os.Stderr, "the logs are kept in %s\n", w.lab.Dir())
	return err
}

// member has two nodes of 16 CPU and 64Gi, and lends all of them.
func member(name, region string) *federation.Member {
	m := &federation.Member{
		ClusterOptions: lab.ClusterOptions{Name: name, Liqo: true, Flags: map[lab.Daemon][]string{
			lab.LiqoControllerManager: {"--enable-storage=true", "--virtual-storage-class-name=liqo",
				"--storage-namespace=liqo-storage"},
		}},
		Sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}, Network: api.NetworkWireGuard},
		AgentFlags: []string{"--peering-linger", "-1s", "--shrink-grace",
			"4s", "--excess-grace", "8s", "--peering-abandon", "30s"},
	}
	m.AgentFlags = append(m.AgentFlags, "--network-gateway",
		cmp.Or(map[string]string{"rome": "LoadBalancer", "milan": "NodePort"}[name], "outbound"))
	gpu := map[string]string{"rome": "NVIDIA-T4", "milan": "NVIDIA-A100", "paris": "NVIDIA-T4"}[name]
	for i := range 2 {
		m.Nodes = append(m.Nodes, lab.Node{
			Name:   fmt.Sprintf("%s-%d", name, i+1),
			Labels: map[string]string{corev1.LabelTopologyRegion: region, "nvidia.com/gpu.product": gpu},
			Resources: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"),
				"nvidia.com/gpu": resource.MustParse("2"),
			},
		})
	}
	return m
}

// patience is how long anything may take on a machine that is busy with other things: an end
// without the other side, which is waited for twice as long as --peering-abandon says, too.
const patience = 5 * time.Minute

// eventually asks until there is no error any more.
func eventually(t *testing.T, what string, ask func(ctx context.Context) error) {
	t.Helper()
	federation.Eventually(t, patience, what, ask)
}
