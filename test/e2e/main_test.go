package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// world is the federation that all tests share.
type world struct {
	*federation.Federation
	lab *lab.Lab
	// rome has 16 CPU and only borrows. milan has 48 CPU and two agents, and one of them leads. paris has
	// 32 CPU and 4 GPUs. Both lend everything.
	rome, milan, paris *federation.Member
}

var shared struct {
	once sync.Once
	world
	err error
}

// start returns the federation, the first time after starting it.
func start(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("starts three Kubernetes clusters")
	}
	shared.once.Do(func() { shared.err = shared.start() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return &shared.world
}

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // clients report what these tests do to them
	ctrllog.SetLogger(logr.Discard())
	code := m.Run()
	if err := shared.stop(code == 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func (w *world) start() (err error) {
	ctx := context.Background()
	if w.lab, err = lab.Start(ctx, lab.Options{Progress: os.Stderr, Keep: true}); err != nil {
		return err
	}
	policy, err := filepath.Abs("testdata/audit-policy.yaml")
	if err != nil {
		return err
	}
	w.rome = member("rome", "it", policy, node("rome-1", "8"), node("rome-2", "8"))
	w.milan = member("milan", "it", policy, node("milan-1", "16"), node("milan-2", "16"), node("milan-3", "16"))
	w.milan.AgentFlags = append(w.milan.AgentFlags, "--leader-elect")
	w.paris = member("paris", "fr", policy, node("paris-1", "16"), node("paris-2", "16"))
	for i := range w.paris.Nodes {
		w.paris.Nodes[i].Resources["nvidia.com/gpu"] = resource.MustParse("2")
	}
	// As API servers before 1.34 are: agents have to list before they watch.
	w.paris.Flags[lab.APIServer] = append(w.paris.Flags[lab.APIServer], "--feature-gates=WatchList=false")
	for _, lender := range []*federation.Member{w.milan, w.paris} {
		lender.Sharing = &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}
	}
	w.Federation, err = federation.Start(ctx, federation.Options{
		Lab: w.lab, Progress: os.Stderr, Members: []*federation.Member{w.rome, w.milan, w.paris},
	})
	if err == nil {
		_, err = w.milan.StartAgent(1)
	}
	return err
}

// stop ends everything. A process that ended untold is an error, and keeps the logs as a failed test does.
func (w *world) stop(passed bool) error {
	if w.lab == nil {
		return nil
	}
	errs := []error{w.lab.Err()}
	if w.Federation != nil {
		w.Federation.Stop()
		select {
		case err := <-w.Crashes():
			errs = append(errs, err)
		default:
		}
	}
	errs = append(errs, w.lab.Stop())
	if err := errors.Join(errs...); err != nil || !passed {
		fmt.Fprintln(os.Stderr, "the logs are kept in", w.lab.Dir())
		return err
	}
	return os.RemoveAll(w.lab.Dir())
}

// interval is how often agents do what they do without a change: ten times as often as by default.
const interval = 3 * time.Second

// member is a cluster whose API server also tells how it answered, and demands what OpenShift's
// does of owner references.
func member(name, region, policy string, nodes ...lab.Node) *federation.Member {
	for i := range nodes {
		nodes[i].Labels = map[string]string{corev1.LabelTopologyRegion: region}
	}
	return &federation.Member{
		ClusterOptions: lab.ClusterOptions{Name: name, Nodes: nodes, Flags: map[lab.Daemon][]string{lab.APIServer: {
			"--audit-policy-file=" + policy, "--audit-log-path=" + answersLog,
			"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
		}, lab.ControllerManager: {"--controllers=clusterrole-aggregation-controller"}}},
		AgentFlags: []string{"--advertisement-requeue-interval=" + interval.String()},
	}
}

func node(name, cpu string) lab.Node {
	return lab.Node{Name: name, Resources: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("64Gi"),
	}}
}
