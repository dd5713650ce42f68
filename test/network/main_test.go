// Package network shows that packets flow: Liqo's real gateways, fabric and IPAM join two clusters
// with the same pod addresses, on Bourse's word alone. The nodes are in one emulated machine (see
// package lab).
//
// What is played: the kubelet, the network plugin and the service proxy of each node. Real are the kernel's
// WireGuard and Geneve, Liqo's programs with their own rights, and the control planes of Kubernetes and Liqo.
package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// world is two clusters in a machine: rome borrows, milan lends. Both call their pods 10.200.0.0/16.
type world struct {
	*federation.Federation
	machine     *lab.Machine
	rome, milan *federation.Member
}

// start starts both, and clusters with other names whose gateways can be dialled.
func start(t *testing.T, others ...string) *world {
	t.Helper()
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	l := lab.Test(t)
	w := &world{machine: lab.MachineFor(t, l)}
	w.rome, w.milan = w.member("rome", "outbound"), w.member("milan", "NodePort")
	members := []*federation.Member{w.rome, w.milan}
	for _, name := range others {
		members = append(members, w.member(name, "NodePort"))
	}
	var err error
	w.Federation, err = federation.Start(t.Context(), federation.Options{
		Lab: l, Progress: os.Stderr, Members: members,
	})
	t.Cleanup(func() {
		if t.Failed() {
			w.keep(t, l)
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

// keep writes the state of the machine beside the lab's logs.
func (w *world) keep(t *testing.T, l *lab.Lab) {
	t.Helper()
	out, err := w.machine.Run(context.Background(), `
for n in /run/netns/*; do
	echo "=== $n"
	nsenter --net=$n sh -c '/bin/ip address; /bin/ip rule; /bin/ip route show table all; nft list ruleset; wg; cat /proc/net/nf_conntrack' || true
done
tail -n 60 /run/log/*
dmesg | tail -n 40`)
	if err := errors.Join(err, os.WriteFile(filepath.Join(l.Dir(), "machine", "state.log"),
		[]byte(out), 0o600)); err != nil {
		t.Error(err)
	}
}

func (w *world) member(name, gateway string) *federation.Member {
	return &federation.Member{
		ClusterOptions: lab.ClusterOptions{Name: name, Liqo: true, Machine: w.machine, Flags: map[lab.Daemon][]string{}},
		Sharing:        &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}, Network: api.NetworkWireGuard},
		AgentFlags: []string{
			"--peering-linger", "-1s", "--shrink-grace", "4s", "--excess-grace", "8s", "--network-gateway", gateway,
			"--allow-peer-range", "172.30.0.0/24",
		},
	}
}

func eventually(t *testing.T, what string, ask func(ctx context.Context) error) {
	t.Helper()
	federation.Eventually(t, patience, what, ask)
}

// in runs a command in the network of a pod, or of a node.
func (w *world) in(ctx context.Context, namespace, format string, args ...any) (string, error) {
	return w.machine.Run(ctx, fmt.Sprintf("nsenter --net=/run/netns/%s %s", namespace, fmt.Sprintf(format, args...)))
}
