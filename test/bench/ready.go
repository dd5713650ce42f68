package main

import (
	"context"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/test/byhand"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// ready measures the time from a request to a Ready virtual node, from nothing and back to nothing each time. A client
// with the rights of both clusters' admins does the same with Liqo's own objects. The two take turns, each from rest,
// so that both meet the same machine. There are thirty of each: medians of ten differ by a tenth and more from run to
// run, because of the garbage collections of the API servers.
func ready(ctx context.Context, b *bench) ([]Figure, error) {
	runs := max(b.count(30), 2)
	r := &readiness{}
	defer r.stop()
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	var ours, theirs []float64
	for i := range runs {
		brokered, err := r.brokered(ctx)
		if err != nil {
			return nil, err
		}
		byHand, err := r.byHand(ctx)
		if err != nil {
			return nil, err
		}
		say("run %d of %d: brokered %.2f s, by hand %.2f s", i+1, runs, brokered.Seconds(), byHand.Seconds())
		ours, theirs = append(ours, brokered.Seconds()), append(theirs, byHand.Seconds())
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	a, h := ours[len(ours)/2], theirs[len(theirs)/2]
	return []Figure{
		atMost(1.2, "request to Ready virtual node, against the same by hand", a/h, "x"),
		plain("request to Ready virtual node, median", a, "s"),
		plain("the same by hand with Liqo's objects, median", h, "s"),
	}, nil
}

// rest is how long both clusters come to rest before a turn, because what the turn before has left
// them to do is not measured with it; and after it, because a slice that goes the moment its Node
// is Ready may leave Liqo with a Node that nothing removes.
const rest = time.Second

// readiness is clusters with Liqo. rome borrows from milan.
type readiness struct {
	lab         *lab.Lab
	federation  *federation.Federation
	rome, milan *federation.Member
	binary      string // the bourse to run; empty: one that is built
}

// start starts rome, milan, and more clusters that lend.
func (r *readiness) start(ctx context.Context, more ...string) (err error) {
	if r.lab, err = lab.Start(ctx, lab.Options{Progress: os.Stderr}); err != nil {
		return err
	}
	member := func(name string) *federation.Member {
		return &federation.Member{
			ClusterOptions: lab.ClusterOptions{Name: name, Liqo: true,
				Nodes: []lab.Node{{Name: name + "-1", Resources: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"),
				}}}},
			AgentFlags: []string{"--peering-linger", "-1s"},
		}
	}
	r.rome, r.milan = member("rome"), member("milan")
	members := []*federation.Member{r.rome, r.milan}
	for _, name := range more {
		members = append(members, member(name))
	}
	for _, provider := range members[1:] {
		provider.Sharing = &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}
	}
	r.federation, err = federation.Start(ctx, federation.Options{
		Lab: r.lab, Binary: r.binary, Progress: os.Stderr, Members: members,
	})
	if err != nil {
		return err
	}
	return r.offered(ctx)
}

// offered waits until rome can reserve at milan.
func (r *readiness) offered(ctx context.Context) error {
	for ctx.Err() == nil {
		e, err := r.rome.People(0).Evaluate(ctx, api.Request{Resources: asked(), Target: "milan"})
		if err == nil && e.Decision.Chosen == "milan" {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return ctx.Err()
}

func (r *readiness) stop() {
	if r.federation != nil {
		r.federation.Stop()
	}
	if r.lab != nil {
		if err := r.lab.Stop(); err != nil {
			say("%s", err)
		}
	}
}

func asked() api.Resources {
	return api.Resources{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi")}
}

// brokered takes one reservation from its request to a Ready node, and then back to nothing.
func (r *readiness) brokered(ctx context.Context) (time.Duration, error) {
	if err := r.offered(ctx); err != nil {
		return 0, err
	}
	request := &api.ResourceRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "ready-"},
		Spec:       api.ResourceRequestSpec{Request: api.Request{Resources: asked()}},
	}
	time.Sleep(rest)
	began := time.Now()
	if err := r.rome.Objects.Create(ctx, request); err != nil {
		return 0, err
	}
	p := byhand.Peering{Consumer: r.rome, Provider: r.milan}
	if err := p.Ready(ctx, market.SliceName("rome", "milan", api.GeneralPool)); err != nil {
		return 0, err
	}
	took := time.Since(began)
	time.Sleep(rest)
	if err := r.rome.Objects.Delete(ctx, request); err != nil {
		return 0, err
	}
	return took, r.nothingLeft(ctx)
}

// nothingLeft waits until neither cluster has a namespace for the other.
func (r *readiness) nothingLeft(ctx context.Context) error {
	return waitUntil(ctx, 2*time.Minute, "nothing of the peering is left", func() (bool, error) {
		left := 0
		for _, m := range []*federation.Member{r.rome, r.milan} {
			var list corev1.NamespaceList
			if err := m.Objects.List(ctx, &list, kube.MatchingLabels{"liqo.io/tenant-namespace": "true"}); err != nil {
				return false, err
			}
			left += len(list.Items)
		}
		return left == 0, nil
	})
}

// byHand does the same with Liqo's objects.
func (r *readiness) byHand(ctx context.Context) (time.Duration, error) {
	p := byhand.Peering{Consumer: r.rome, Provider: r.milan}
	time.Sleep(rest)
	began := time.Now()
	if err := p.Open(ctx); err != nil {
		return 0, err
	}
	s, err := p.Slice(ctx, "by-hand", corev1.ResourceList(asked()))
	if err != nil {
		return 0, err
	}
	if err := p.Ready(ctx, s.Name); err != nil {
		return 0, err
	}
	took := time.Since(began)
	time.Sleep(rest)
	return took, p.Close(ctx, s)
}
