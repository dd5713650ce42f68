package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// burst measures how long pods that count wait until they run at a provider: from nothing, and then where the pool
// has a virtual node already. In turns with these, it measures the time from a request to a Ready virtual node.
func burst(ctx context.Context, b *bench) ([]Figure, error) {
	turns := max(b.count(5), 1)
	var r readiness
	defer r.stop()
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	p, err := r.makePool(ctx, "milan")
	if err != nil {
		return nil, err
	}
	var ready, first, resized []float64
	for i := range turns {
		brokered, err := r.brokered(ctx)
		if err != nil {
			return nil, err
		}
		ready = append(ready, brokered.Seconds())
		time.Sleep(rest)
		for replicas := int32(2); replicas <= 8; replicas += 2 {
			took, err := p.scale(ctx, replicas)
			if err != nil {
				return nil, err
			}
			if replicas == 2 {
				first = append(first, took.Seconds())
			} else {
				resized = append(resized, took.Seconds())
			}
			time.Sleep(rest)
		}
		if _, err := p.scale(ctx, 0); err != nil {
			return nil, err
		}
		if err := r.nothingLeft(ctx); err != nil {
			return nil, err
		}
		say("turn %d of %d: request to Ready %.2f s, pods from nothing %.2f s, by resizes %.2f s",
			i+1, turns, ready[i], first[i], resized[len(resized)-3:])
	}
	for _, all := range [][]float64{ready, first, resized} {
		slices.Sort(all)
	}
	median := func(of []float64) float64 { return of[len(of)/2] }
	return []Figure{
		atMost(2, "pods that count to Running, by a resize, median", median(resized), "s"),
		plain("the same, slowest", resized[len(resized)-1], "s"),
		atMost(rounded(1.25*median(ready)+2), "pods that count to Running, from nothing, median", median(first), "s"),
		plain("the same, slowest", first[len(first)-1], "s"),
		plain("request to Ready virtual node in the same turns, median", median(ready), "s"),
	}, nil
}

const (
	// burstName is the name of the pool, of its namespace, and of a Deployment.
	burstName  = "burst"
	pendingFor = time.Second
)

// bursting is a VirtualNodePool of rome, and a Deployment whose pods run on its virtual nodes alone.
type bursting struct {
	*readiness
	pool *api.VirtualNodePool
	work *appsv1.Deployment
}

// makePool makes a VirtualNodePool with a Deployment that has no pods.
func (r *readiness) makePool(ctx context.Context, providers ...string) (*bursting, error) {
	labels := map[string]string{"app": burstName}
	p := &bursting{r, &api.VirtualNodePool{
		ObjectMeta: metav1.ObjectMeta{Name: burstName},
		Spec: api.VirtualNodePoolSpec{
			Namespaces: []string{burstName}, Max: resources("cpu", "8", "memory", "8Gi"),
			Providers:      api.PoolProviders{Only: providers},
			PendingFor:     &metav1.Duration{Duration: pendingFor},
			ScaleDownAfter: &metav1.Duration{Duration: time.Second},
		},
	}, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: burstName, Name: burstName},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: new(int64(1)),
				NodeSelector:                  map[string]string{"liqo.io/type": "virtual-node"},
				Containers: []corev1.Container{{Name: "work", Image: "localhost/work", Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList(resources("cpu", "500m", "memory", "64Mi"))}}},
			}},
		},
	}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: burstName}}
	for _, o := range []kube.Object{namespace, p.pool, p.work} {
		if err := r.rome.Objects.Create(ctx, o); err != nil {
			return nil, err
		}
	}
	// Liqo lets pods on virtual nodes that are made after the namespace is offloaded.
	return p, waitUntil(ctx, time.Minute, "the namespace is offloaded", func() (bool, error) {
		err := r.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(namespace), namespace)
		return namespace.Labels["liqo.io/scheduling-enabled"] == "true", err
	})
}

// scale gives the Deployment so many pods, and waits until these run. It returns the time of the slowest new pod,
// from when it counts until it is Running. A pod counts once it is Unschedulable for pendingFor. The scheduler
// writes in whole seconds since when that is: so a pod counts up to a second before pendingFor is over, and no
// time before it is seen to be Unschedulable is measured.
func (p *bursting) scale(ctx context.Context, replicas int32) (slowest time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	pods, err := p.rome.Objects.Watch(ctx, &corev1.PodList{}, kube.InNamespace(burstName))
	if err != nil {
		return 0, err
	}
	defer pods.Stop()
	before := p.work.DeepCopy()
	p.work.Spec.Replicas = &replicas
	if err := p.rome.Objects.Patch(ctx, p.work, kube.MergeFrom(before)); err != nil || replicas == 0 {
		return 0, err
	}
	counts, running := map[string]time.Time{}, map[string]bool{}
	for e := range pods.ResultChan() {
		pod, is := e.Object.(*corev1.Pod)
		if !is {
			return 0, fmt.Errorf("the watch of pods says %+v", e.Object)
		}
		now := time.Now()
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable && counts[pod.Name].IsZero() {
				counts[pod.Name] = now
				if at := c.LastTransitionTime.Add(pendingFor); at.After(now) {
					counts[pod.Name] = at
				}
			}
		}
		if pod.Status.Phase != corev1.PodRunning || running[pod.Name] {
			continue
		}
		running[pod.Name] = true
		if at, waited := counts[pod.Name]; waited {
			slowest = max(slowest, now.Sub(at))
		}
		if len(running) == int(replicas) {
			if len(counts) == 0 {
				return 0, errors.New("no pod waited for a node")
			}
			return slowest, nil
		}
	}
	return 0, fmt.Errorf("%d of %d pods run: %w", len(running), replicas, ctx.Err())
}

// waitUntil asks every 100 ms until something is so, for some time.
func waitUntil(ctx context.Context, atMost time.Duration, what string, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	for ctx.Err() == nil {
		if done, err := is(); done || err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("it is not so that %s: %w", what, ctx.Err())
}
