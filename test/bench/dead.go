package main

import (
	"context"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/vnp"
	"github.com/bourse-dev/bourse/test/lab"
)

// deadWithin is when dead gives up.
const deadWithin = 8 * time.Minute

// dead measures how long the pods of a Deployment are away when the cluster of their provider dies with its agent:
// from the last heartbeat of the virtual node until they run at another provider.
func dead(ctx context.Context, _ *bench) ([]Figure, error) {
	var r readiness
	defer r.stop()
	if err := r.start(ctx, "paris"); err != nil {
		return nil, err
	}
	p, err := r.makePool(ctx, "milan")
	if err != nil {
		return nil, err
	}
	const replicas = 2
	if _, err := p.scale(ctx, replicas); err != nil {
		return nil, err
	}
	if err := r.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(p.pool), p.pool); err != nil {
		return nil, err
	}
	before := p.pool.DeepCopy()
	p.pool.Spec.Providers.Only = []string{"milan", "paris"}
	if err := r.rome.Objects.Patch(ctx, p.pool, kube.MergeFrom(before)); err != nil {
		return nil, err
	}
	r.milan.Agent(0).Kill()
	r.milan.Cluster.Kill(lab.LiqoProxy, lab.LiqoCRDReplicator, lab.LiqoControllerManager, lab.LiqoWebhook, lab.LiqoIPAM,
		lab.Kwok, lab.Scheduler, lab.ControllerManager, lab.APIServer)
	var said, runs time.Time
	err = waitUntil(ctx, deadWithin, "the provider is Dead", func() (bool, error) {
		err := r.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(p.pool), p.pool)
		said = time.Now()
		return slices.ContainsFunc(p.pool.Status.Providers, func(one api.PoolProvider) bool {
			return one.Name == "milan" && one.State == string(vnp.Dead)
		}), err
	})
	if err != nil {
		return nil, err
	}
	err = waitUntil(ctx, deadWithin, "all pods run at paris", func() (bool, error) {
		var pods corev1.PodList
		err := r.rome.Objects.List(ctx, &pods, kube.InNamespace(burstName))
		n := 0
		for _, pod := range pods.Items {
			if pod.Spec.NodeName == market.SliceName("rome", "paris", api.GeneralPool) && pod.Status.Phase == corev1.PodRunning {
				n++
			}
		}
		runs = time.Now()
		return n == replicas, err
	})
	if err != nil {
		return nil, err
	}
	lease := kube.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: market.SliceName("rome", "milan", api.GeneralPool)}
	var heartbeat coordinationv1.Lease
	if err := r.rome.Objects.Get(ctx, lease, &heartbeat); err != nil {
		return nil, err
	}
	last := heartbeat.Spec.RenewTime.Time
	return []Figure{
		atMost(300, "a dead provider's pods Running elsewhere, from its last heartbeat", runs.Sub(last).Seconds(), "s"),
		atMost(240, "the provider is called dead, from its last heartbeat", said.Sub(last).Seconds(), "s"),
		plain("its pods Running elsewhere, from when it is called dead", runs.Sub(said).Seconds(), "s"),
	}, nil
}
