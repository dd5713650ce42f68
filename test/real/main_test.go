// Package real shows what only a real kubelet shows: a pod that Bourse's agents offload runs in a
// container, answers, can be looked into from the consumer, and ends as containers end. The
// provider's node is an emulated machine with containerd, kubelet and kube-proxy (see package lab);
// all else is as in package liqo.
//
// It is not part of make test: REAL=1 runs it.
package real

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// patience is how long one step may take on a slow machine that does other things too.
const patience = 3 * time.Minute

// world is two clusters: rome borrows, and milan, whose node is real, lends.
type world struct {
	*federation.Federation
	rome, milan *federation.Member
	kubectl     string
}

func start(t *testing.T) *world {
	t.Helper()
	if os.Getenv("REAL") == "" {
		t.Skip("runs real containers in an emulated machine: REAL=1 go test ./test/real")
	}
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	l := lab.Test(t)
	kubectl, err := lab.Kubectl(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		rome: &federation.Member{
			ClusterOptions: lab.ClusterOptions{Name: "rome", Liqo: true, Nodes: []lab.Node{{Name: "rome-1"}}},
		},
		milan: &federation.Member{
			ClusterOptions: lab.ClusterOptions{
				Name: "milan", Liqo: true, Nodes: []lab.Node{{Name: "milan-1", Real: true}},
			},
			Sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}},
		},
		kubectl: kubectl,
	}
	w.Federation, err = federation.Start(t.Context(), federation.Options{
		Lab: l, Progress: os.Stderr, Members: []*federation.Member{w.rome, w.milan},
	})
	t.Cleanup(func() {
		if t.Failed() && w.milan.Cluster != nil && w.milan.Cluster.Machine("milan-1") != nil {
			out, err := w.milan.Cluster.Machine("milan-1").Run(context.Background(), "tail -n 60 /run/log/*; dmesg | tail -n 40")
			t.Logf("the node says %s, %v", out, err)
		}
		if w.Federation != nil {
			w.Stop()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func eventually(t *testing.T, what string, ask func(ctx context.Context) error) {
	t.Helper()
	federation.Eventually(t, patience, what, ask)
}
