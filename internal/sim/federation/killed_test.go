package federation_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

var errKilled = errors.New("killed")

// arm lets an agent die at its nth write of its Ledger or of a request: before it or, if lost, after it. Its
// name is sent then.
func (b *bursting) arm(agent string, nth int, lost bool, died chan<- string) {
	var mu sync.Mutex
	left := nth
	check := func(counts bool) error {
		mu.Lock()
		defer mu.Unlock()
		if counts && left > 0 {
			if left--; left == 0 {
				died <- agent
			}
		}
		if left == 0 {
			return errKilled
		}
		return nil
	}
	writes := func(verb, resource string) bool {
		kind, _, _ := strings.Cut(resource, "/")
		return (kind == "ledgers" || kind == "resourcerequests") &&
			slices.Contains([]string{"create", "update", "patch", "delete"}, verb)
	}
	b.Members[agent].Cluster.API.Fault(kubeapi.Faults{
		Before: func(verb, resource, _, _ string) error { return check(!lost && writes(verb, resource)) },
		After:  func(verb, resource, _, _ string) error { return check(lost && writes(verb, resource)) },
	})
}

// through lets something happen, in which each of some agents dies once, and the broker with the first.
// Each starts again. It waits until what must become of it is so.
func (b *bursting) through(what string, happens func(), is func() bool, agents ...string) {
	b.t.Helper()
	died := make(chan string, len(agents))
	happens()
	for _, agent := range agents {
		b.arm(agent, b.nth, b.nth%2 == 0, died)
	}
	began, kills := time.Now(), 0
	rises := func(agent string) {
		b.StopMember(agent)
		if kills++; kills == 1 {
			b.Broker.Stop()
			if err := b.Broker.Start(); err != nil {
				b.t.Fatal(err)
			}
		}
		b.Members[agent].Cluster.API.Fault(kubeapi.Faults{})
		b.StartMember(agent)
		b.t.Logf("%s: %s was killed at write %d", what, agent, b.nth)
	}
	end := time.Now().Add(2 * time.Minute)
	waits := func() {
		for !is() || len(died) > 0 {
			select {
			case agent := <-died:
				rises(agent)
			case <-time.After(20 * time.Millisecond):
				if time.Now().After(end) {
					b.t.Fatalf("%s: it does not end: %+v", what, b.state())
				}
			}
		}
	}
	waits()
	for _, agent := range agents { // not each writes so often
		b.Members[agent].Cluster.API.Fault(kubeapi.Faults{})
	}
	waits() // one may have died after the last look
	b.t.Logf("%s took %s", what, time.Since(began).Round(time.Millisecond))
}

// pool returns a VirtualNodePool of a member; nil: there is none, or the API does not answer.
func (b *bursting) pool(member, name string) *api.VirtualNodePool {
	var p api.VirtualNodePool
	if b.Members[member].Objects.Get(b.t.Context(), kube.ObjectKey{Name: name}, &p) != nil {
		return nil
	}
	return &p
}

// state is what the VirtualNodePools show, for people.
func (b *bursting) state() (all []api.VirtualNodePoolStatus) {
	for member, name := range map[string]string{"rome": "burst", "zurich": "upstream"} {
		if p := b.pool(member, name); p != nil {
			all = append(all, p.Status)
		}
	}
	return all
}

// has reports whether a VirtualNodePool is Ready with so many CPUs used, reserved and at most, of providers.
func (b *bursting) has(member, name, cpu string, providers ...string) func() bool {
	return func() bool {
		p := b.pool(member, name)
		return p != nil && p.Status.CPU == cpu && slices.EqualFunc(p.Status.Providers, providers,
			func(is api.PoolProvider, want string) bool { return is.Name == want && is.State == "Ready" })
	}
}

// Agents, hub and broker are killed at their writes while a pool grows at a hub, the hub replaces its
// provider, the pool shrinks, and both end. All becomes as it should, no pod is moved, and nothing is left.
func TestKilledWhilePoolsChange(t *testing.T) {
	t.Parallel()
	steps := []int{1, 4}
	if testing.Short() {
		steps = steps[1:]
	}
	for _, nth := range steps {
		t.Run(fmt.Sprint("write ", nth), func(t *testing.T) {
			t.Parallel() // most of the time they wait
			b := newBursting(t)
			b.nth = nth
			b.changesAndEnds()
		})
	}
}

// changesAndEnds does all of it once.
func (b *bursting) changesAndEnds() {
	t, ctx := b.t, b.t.Context()
	edit := func(member, name string, change func(*api.VirtualNodePool)) {
		t.Helper()
		eventually(t, "the pool is edited", func() bool {
			p := b.pool(member, name)
			if p == nil {
				return false
			}
			change(p)
			return b.Members[member].Objects.Update(ctx, p) == nil
		})
	}
	b.shows("zurich", "upstream", "0/32/32")
	b.through("grow", func() { b.work.Replicas.Store(12) }, b.has("rome", "burst", "8/8/24", "zurich"), "rome", "zurich")
	made := b.work.Made()
	for _, provider := range []string{"dallas", "austin"} {
		b.through("replace", func() {
			edit("zurich", "upstream", func(p *api.VirtualNodePool) { p.Spec.Providers.Only = []string{provider} })
		}, b.has("zurich", "upstream", "0/32/32", provider), "zurich", "austin", "dallas")
	}
	b.shows("rome", "burst", "8/8/24")
	if now := b.work.Made(); now != made {
		t.Fatalf("a pod of the customer was evicted: %d were made before, %d until now", made, now)
	}
	b.through("shrink", func() { b.work.Replicas.Store(8) }, b.has("rome", "burst", "0/0/24"), "rome", "zurich")
	b.work.Replicas.Store(12)
	b.shows("rome", "burst", "8/8/24")
	gone := func(member, name, provider string) {
		b.through("end "+name, func() {
			if err := b.Members[member].Objects.Delete(ctx, b.pool(member, name)); err != nil {
				t.Fatal(err)
			}
		}, func() bool {
			var requests api.ResourceRequestList
			var nodes corev1.NodeList
			o := b.Members[member].Objects
			return b.pool(member, name) == nil && o.List(ctx, &requests) == nil && len(requests.Items) == 0 &&
				o.List(ctx, &nodes, kube.HasLabels{api.VirtualNodePoolLabel}) == nil && len(nodes.Items) == 0
		}, member, provider)
	}
	gone("rome", "burst", "zurich")
	gone("zurich", "upstream", "austin")
	for name, m := range b.Members {
		b.through("nothing is reserved at or by "+name, func() {}, func() bool {
			all, err := m.People.Reservations(ctx)
			if err != nil {
				return false
			}
			for _, r := range all {
				if !r.Payload.State.Over() {
					return false
				}
			}
			c, err := m.People.Cluster(ctx, name)
			return err == nil && c.Payload.Pools[api.GeneralPool].Reserved == nil
		})
	}
}
