package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Live takes a step at each tick until the context ends. A step that fails,
// such as while the API is down, is left out.
func (c *Cluster) Live(ctx context.Context, ticks <-chan time.Time) {
	for {
		select {
		case <-ticks:
			_ = c.Step(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// Step lets one thing happen: mostly a pod that comes or goes, so that there
// are about as many as in the options; one time in twenty a node that is
// cordoned, no longer Ready, or well again.
func (c *Cluster) Step(ctx context.Context) error {
	switch {
	case len(c.nodes) == 0:
		return nil
	case c.random.IntN(20) == 0:
		return c.changeNode(ctx)
	case c.random.IntN(2*c.o.Pods+1) >= len(c.pods):
		return c.startPod(ctx)
	default:
		return c.stopPod(ctx)
	}
}

// startPod runs a pod on some node that has room; a full cluster gets none.
func (c *Cluster) startPod(ctx context.Context) error {
	want := size{milliCPU: 125 << c.random.IntN(6), mebibytes: 128 << c.random.IntN(7)}
	if c.o.GPUs > 0 && c.random.IntN(4) == 0 {
		want.gpus = 1
	}
	var on *node
	for _, i := range c.random.Perm(len(c.nodes)) {
		n := c.nodes[i]
		if !n.cordoned && !n.notReady && n.free.milliCPU >= want.milliCPU &&
			n.free.mebibytes >= want.mebibytes && n.free.gpus >= want.gpus {
			on = n
			break
		}
	}
	if on == nil {
		return nil
	}
	c.made++ // also if this fails: it may have been carried out
	p := &pod{name: fmt.Sprintf("app-%06d", c.made), on: on, size: want}
	pods := c.client.CoreV1().Pods(namespace)
	if _, err := pods.Create(ctx, p.object(), metav1.CreateOptions{}); err != nil {
		return err
	}
	c.pods = append(c.pods, p)
	on.free = on.free.less(want)
	_, err := pods.Patch(ctx, p.name, types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`),
		metav1.PatchOptions{}, "status")
	return err
}

func (c *Cluster) stopPod(ctx context.Context) error {
	i := c.random.IntN(len(c.pods))
	p := c.pods[i]
	err := c.client.CoreV1().Pods(namespace).Delete(ctx, p.name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	p.on.free = p.on.free.less(size{-p.size.milliCPU, -p.size.mebibytes, -p.size.gpus})
	c.pods = slices.Delete(c.pods, i, i+1)
	return nil
}

func (c *Cluster) changeNode(ctx context.Context) error {
	n := c.nodes[c.random.IntN(len(c.nodes))]
	was := *n
	switch {
	case n.cordoned || n.notReady:
		n.cordoned, n.notReady = false, false
	case c.random.IntN(3) == 0:
		n.notReady = true
	default:
		n.cordoned = true
	}
	ready := corev1.ConditionTrue
	if n.notReady {
		ready = corev1.ConditionFalse
	}
	nodes := c.client.CoreV1().Nodes()
	_, err := nodes.Patch(ctx, n.name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, n.cordoned),
		metav1.PatchOptions{})
	if err == nil {
		condition := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, ready)
		_, err = nodes.Patch(ctx, n.name, types.StrategicMergePatchType, condition, metav1.PatchOptions{}, "status")
	}
	if err != nil {
		*n = was
	}
	return err
}

func (p *pod) object() *corev1.Pod {
	requests := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(p.size.milliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(p.size.mebibytes<<20, resource.BinarySI),
	}
	limits := corev1.ResourceList{}
	if p.size.gpus > 0 {
		requests[gpuResource] = *resource.NewQuantity(p.size.gpus, resource.DecimalSI)
		limits[gpuResource] = requests[gpuResource]
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Labels: map[string]string{"app": "sim"}},
		Spec: corev1.PodSpec{NodeName: p.on.name, Containers: []corev1.Container{{
			Name: "app", Image: "sim", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
		}}},
	}
}

func (s size) less(by size) size {
	return size{s.milliCPU - by.milliCPU, s.mebibytes - by.mebibytes, s.gpus - by.gpus}
}
