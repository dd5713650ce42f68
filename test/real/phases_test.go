package real

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// observer sees each phase that the pods of a namespace go through at a cluster.
type observer struct {
	cluster string
	mu      sync.Mutex
	seen    map[string][]string // by pod
	log     []string            // all of them, with the times
}

// observe begins to look.
func (w *world) observe(t *testing.T, at *federation.Member, namespace string) *observer {
	t.Helper()
	o, begin := &observer{cluster: at.Name, seen: map[string][]string{}}, time.Now()
	events, err := at.Objects.Watch(t.Context(), &corev1.PodList{}, kube.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range events.ResultChan() {
			if p, is := e.Object.(*corev1.Pod); is {
				o.add(p, e.Type == watch.Deleted, time.Since(begin))
			}
		}
	}()
	t.Cleanup(func() {
		events.Stop()
		<-done
		t.Logf("pods of %s at %s:\n%s", namespace, at.Name, strings.Join(o.log, "\n"))
	})
	return o
}

func (o *observer) add(p *corev1.Pod, gone bool, at time.Duration) {
	is := string(p.Status.Phase)
	for _, c := range p.Status.ContainerStatuses { // a busy kubelet shows the end of a container before that of its pod
		if end := c.State.Terminated; end != nil && p.Status.Phase != corev1.PodRunning {
			is += fmt.Sprintf("(%d)", end.ExitCode)
		}
	}
	if gone {
		is = "gone"
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if seen := o.seen[p.Name]; len(seen) == 0 || seen[len(seen)-1] != is {
		o.seen[p.Name] = append(seen, is)
		o.log = append(o.log, fmt.Sprintf("%6.1fs %-6s %s", at.Seconds(), p.Name, is))
	}
}

// goes waits until a pod is gone, and returns the phases that it had.
func (o *observer) goes(t *testing.T, pod string) []string {
	t.Helper()
	var seen []string
	eventually(t, pod+" is gone from "+o.cluster, func(context.Context) error {
		o.mu.Lock()
		defer o.mu.Unlock()
		seen = slices.Clone(o.seen[pod])
		if !slices.Contains(seen, "gone") {
			return fmt.Errorf("it was %v", seen)
		}
		return nil
	})
	return seen
}
