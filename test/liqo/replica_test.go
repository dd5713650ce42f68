package liqo

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// A second replica takes over at any step of a reservation: the leader is killed, stands still until the other leads,
// or loses its lease. A replica takes over after 15 s, so this is no part of make test.
func TestAReplicaTakesOverAtEachStep(t *testing.T) {
	if os.Getenv("ALL_PAIRS") == "" {
		t.Skip("takes minutes: make test-more")
	}
	w := start(t)
	w.spent = true
	members := []*replicas{w.replicate(t, w.rome), w.replicate(t, w.milan)}
	step := 0
	w.liveThrough(t, "replicated", func(when string, is func(context.Context) error) {
		t.Helper()
		r := members[step%len(members)]
		ways := []struct {
			name string
			do   func()
		}{{"is killed", r.kill}, {"stands still", r.pause}, {"loses its lease", r.loseLease}}
		way := ways[step%len(ways)]
		step++
		at(t, when, is)
		began := time.Now()
		way.do()
		t.Logf("%s: replica %d of %s leads, %s after the other %s", when, r.leader, r.Name,
			time.Since(began).Round(time.Second), way.name)
	})
}

// replicas are the two agents of a cluster.
type replicas struct {
	*federation.Member
	t      *testing.T
	leader int
}

// replicate starts the agent of a cluster again, with a second one that stands by.
func (w *world) replicate(t *testing.T, m *federation.Member) *replicas {
	t.Helper()
	m.Agent(0).Kill()
	m.AgentFlags = append(m.AgentFlags, "--leader-elect")
	r := &replicas{m, t, 0}
	r.start(0)
	r.leads(0)
	r.start(1)
	return r
}

func (r *replicas) start(replica int) {
	r.t.Helper()
	if _, err := r.StartAgent(replica); err != nil {
		r.t.Fatal(err)
	}
}

// leads waits until a replica leads: only then it serves its socket.
func (r *replicas) leads(replica int) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("replica %d of %s leads", replica, r.Name), func(ctx context.Context) error {
		_, err := r.People(replica).Status(ctx)
		return err
	})
	r.leader = replica
}

// kill ends the leader. Another agent stands by in its place.
func (r *replicas) kill() {
	r.t.Helper()
	before := r.leader
	r.Agent(before).Kill()
	r.leads(1 - before)
	r.start(before)
}

// pause has the leader stand still until the other one leads. When it goes on, it ends.
func (r *replicas) pause() {
	r.t.Helper()
	before := r.leader
	r.Agent(before).Expect()
	r.signal(before, syscall.SIGSTOP)
	r.leads(1 - before)
	r.signal(before, syscall.SIGCONT)
	r.replace(before)
}

func (r *replicas) signal(replica int, s syscall.Signal) {
	r.t.Helper()
	if err := r.Agent(replica).Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// loseLease gives the lease to nobody that runs. The leader ends, and the other one leads.
func (r *replicas) loseLease() {
	r.t.Helper()
	before := r.leader
	r.Agent(before).Expect()
	lease := &coordinationv1.Lease{}
	eventually(r.t, "the lease has another holder", func(ctx context.Context) error {
		if err := r.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: "bourse-agent"}, lease); err != nil {
			return err
		}
		lease.Spec.HolderIdentity = new("nobody")
		return r.Objects.Update(ctx, lease)
	})
	r.replace(before)
}

// replace waits until a replica has ended by itself, and the other one leads. Another agent stands by in its place.
func (r *replicas) replace(before int) {
	r.t.Helper()
	select {
	case <-r.Agent(before).Done():
	case <-time.After(patience):
		r.t.Fatalf("replica %d of %s leads without its lease", before, r.Name)
	}
	r.leads(1 - before)
	r.start(before)
}
