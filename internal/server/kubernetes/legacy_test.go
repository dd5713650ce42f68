package kubernetes_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/resourceagent"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// publish does what the prototype's agent does in its Kubernetes mode: it reads its object, and
// replaces it whole.
func (w *fixture) publish(cluster, cpu string, number int64) error {
	u, err := w.advertisement(cluster)
	if err != nil {
		return err
	}
	amounts := func(cpu string) map[string]any { return map[string]any{"cpu": cpu, "memory": "64Gi"} }
	u.Object["spec"] = map[string]any{
		"clusterID": cluster, "clusterName": "cluster-advertisement", "timestamp": time.Unix(number,
			0).Format("2006-01-02T15:04:05Z"),
		"resources": map[string]any{"capacity": amounts(cpu), "allocatable": amounts(cpu),
			"allocated": map[string]any{"cpu": "0", "memory": "0"}, "available": amounts(cpu)},
	}
	return w.kube.Update(context.Background(), u)
}

// prototype is a cluster whose agent is of the prototypes, and is approved. It goes on publishing
// until the test ends.
func (w *fixture) prototype(cluster, cpu string) {
	w.t.Helper()
	w.bind(cluster)
	var number atomic.Int64
	say := func() error { return w.publish(cluster, cpu, number.Add(1)) }
	w.eventually("it publishes", say)
	w.eventually("it is told to wait for approval", func() error {
		if s := w.status(cluster); s.Member != api.MemberPending ||
			!strings.Contains(s.Message, "bourse broker approve "+cluster) {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	if _, err := w.Operator.SetMember(context.Background(), cluster, "approve"); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("it is active", func() error {
		if s := w.status(cluster); !s.Active || s.Phase != "Active" || s.Cluster == nil {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	w.eventually("it publishes again", say)
}

// phase is what the prototype's agent looks at.
func (w *fixture) phase(cluster string, of func(*unstructured.Unstructured) bool) (phase, message string) {
	w.t.Helper()
	all := kubernetes.List(kubernetes.Reservations)
	if err := w.kube.List(context.Background(), all, ctrlclient.InNamespace(kubernetes.Namespace(cluster))); err != nil {
		w.t.Fatal(err)
	}
	for _, u := range all.Items {
		if of(&u) {
			phase, _, _ = unstructured.NestedString(u.Object, "status", "phase")
			message, _, _ = unstructured.NestedString(u.Object, "status", "message")
		}
	}
	return phase, message
}

// Two clusters whose agents are of the prototypes trade, as they did: by objects that they, and
// people, write and watch.
func TestPrototypes(t *testing.T) {
	w := newFixture(t)
	resourceagent.Serve(resourceagent.Options{Server: w.Server,
		Secret: bytes.Repeat([]byte{7}, 32), Wait: time.Minute, Log: servertest.Silent()})
	w.prototype("cluster-1", "8")
	w.prototype("cluster-2", "4")
	ask := func(name string, cpu any) {
		u := kubernetes.Object(kubernetes.Reservations, kubernetes.Namespace("cluster-2"), name)
		u.Object["spec"] = map[string]any{"requesterID": "cluster-2",
			"requestedResources": map[string]any{"cpu": cpu, "memory": "1Gi"}, "duration": "1h0m0s"}
		if err := w.kube.Create(context.Background(), u); err != nil {
			t.Fatal(err)
		}
	}
	ask("wanted", int64(6)) // without quotes, as the prototype took it
	between := func(u *unstructured.Unstructured) bool {
		consumer, _, _ := unstructured.NestedString(u.Object, "spec", "requesterID")
		provider, _, _ := unstructured.NestedString(u.Object, "spec", "targetClusterID")
		size, _, _ := unstructured.NestedString(u.Object, "spec", "requestedResources", "cpu")
		return consumer == "cluster-2" && provider == "cluster-1" && size == "6"
	}
	for _, cluster := range []string{"cluster-1", "cluster-2"} {
		w.eventually(cluster+" is instructed", func() error {
			if phase, message := w.phase(cluster, between); phase != "Reserved" {
				return fmt.Errorf("%q %s", phase, message)
			}
			return nil
		})
	}
	w.eventually("what was asked for is what was made", func() error {
		all := kubernetes.List(kubernetes.Reservations)
		err := w.kube.List(context.Background(), all, ctrlclient.InNamespace(kubernetes.Namespace("cluster-2")))
		if err == nil && len(all.Items) != 1 {
			err = fmt.Errorf("%d Reservations", len(all.Items))
		}
		return err
	})
	ask("too-much", "100")
	w.eventually("what cannot be had says why", func() error {
		phase, message := w.phase("cluster-2", func(u *unstructured.Unstructured) bool { return u.GetName() == "too-much" })
		if phase != "Failed" || !strings.Contains(message, "none of") {
			return fmt.Errorf("%q %s", phase, message)
		}
		return nil
	})
}

// In the name of a cluster that has a key of its own nobody speaks in the prototypes' words.
func TestAPrototypeIsNotAMemberWithAKey(t *testing.T) {
	w := newFixture(t)
	resourceagent.Serve(resourceagent.Options{Server: w.Server,
		Secret: bytes.Repeat([]byte{7}, 32), Wait: time.Minute, Log: servertest.Silent()})
	w.join("rome")
	w.eventually("it publishes", func() error { return w.publish("rome", "8", 1) })
	w.eventually("it is refused", func() error {
		if s := w.status("rome"); !strings.Contains(s.Message, "key of its own") ||
			s.Observed == "" || s.Cluster.Pools != nil {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}
