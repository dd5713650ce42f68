package liqo

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// world is the federation that all tests share: rome and milan lend and borrow, paris lends.
type world struct {
	*federation.Federation
	lab                *lab.Lab
	rome, milan, paris *federation.Member
}

var shared struct {
	once sync.Once
	world
	err error
}

func start(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("starts three Kubernetes clusters with Liqo")
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
	w.rome, w.milan, w.paris = member("rome", "it"), member("milan", "it"), member("paris", "fr")
	w.Federation, err = federation.Start(ctx, federation.Options{Lab: w.lab, Progress: os.Stderr, Members: []*federation.Member{w.rome, w.milan, w.paris}})
	return err
}

func (w *world) stop(passed bool) error {
	if w.lab == nil {
		return nil
	}
	var crash error
	select {
	case crash = <-w.Crashes():
	default:
	}
	err := errors.Join(w.lab.Err(), crash)
	w.Stop()
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
		ClusterOptions: lab.ClusterOptions{Name: name, Liqo: true, Flags: map[lab.Daemon][]string{}},
		Sharing:        &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}, Network: api.NetworkWireGuard},
		AgentFlags:     []string{"--peering-linger", "-1s", "--shrink-grace", "4s", "--excess-grace", "8s", "--peering-abandon", "30s"},
	}
	m.AgentFlags = append(m.AgentFlags, "--network-gateway", map[string]string{"rome": "LoadBalancer", "milan": "NodePort", "paris": "outbound"}[name])
	if name == "paris" {
		m.AgentFlags = append(m.AgentFlags, "--metrics-bind-address", metrics)
	}
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

// metrics is where the agent of paris shows its metrics: on an address of this machine that no other process uses.
var metrics = fmt.Sprintf("127.77.%d.%d:9090", os.Getpid()>>8&255, os.Getpid()&255)

// patience is how long anything may take on a machine that is busy with other things: an end without the other side, which is waited for
// twice as long as --peering-abandon says, too.
const patience = 2 * time.Minute

// eventually asks until there is no error any more.
func eventually(t *testing.T, what string, ask func(ctx context.Context) error) {
	t.Helper()
	federation.Eventually(t, patience, what, ask)
}
