package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/objects"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// memberSession serves one member. Everything but waking it runs on one goroutine.
type memberSession struct {
	*service
	cluster, namespace string
	log                *slog.Logger
	close              func()
	woken              chan struct{}
	changed            atomic.Bool  // the member's Reservations may be outdated
	took               atomic.Int64 // the duration of the last write of all Reservations, in nanoseconds
	calls              map[string]*job
	agent              objects.Agent // serves an agent of the prototypes
	watching           func()        // ends the watch of the member's reservations
	admitted           bool          // whether this session gave the member access that it still has
	wait               time.Duration // after the last failure to write the member's Reservations
	again              time.Time     // no Reservations are written before
}

// job is a call and its answer.
type job struct {
	stream *stream
	cancel context.CancelFunc
}

func newSession(f *service, cluster, namespace string) *memberSession {
	m := &memberSession{service: f, cluster: cluster, namespace: namespace,
		log: f.log.With("cluster", cluster), woken: make(chan struct{}, 1), calls: map[string]*job{}}
	m.agent = objects.Agent{Cluster: cluster, Exchange: f.Server.Exchange,
		Call: m.callPrototypes, Client: f.client, Go: f.all.Go, Changed: m.invalidate, Log: m.log}
	m.changed.Store(true)
	return m
}

func (m *memberSession) wake() {
	select {
	case m.woken <- struct{}{}:
	default:
	}
}

// invalidate wakes the session because the member's Reservations may be outdated.
func (m *memberSession) invalidate() {
	m.changed.Store(true)
	m.wake()
}

// run serves the member until ctx ends.
func (m *memberSession) run(ctx context.Context) {
	again := time.NewTicker(m.Again)
	defer again.Stop()
	defer m.endCalls()
	if !m.cache.WaitForCacheSync(ctx) {
		return
	}
	for wait := time.Duration(0); ; {
		err := m.reconcile(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			m.log.Warn("a member's objects could not be written", "error", err)
			wait = longer(wait)
			pause(ctx, wait)
			continue
		}
		wait = 0
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			m.changed.Store(true)
		case <-m.woken:
		}
	}
}

func (m *memberSession) endCalls() {
	for id := range m.calls {
		m.endCall(id)
	}
	if m.watching != nil {
		m.watching()
	}
}

func (m *memberSession) endCall(id string) {
	m.calls[id].cancel()
	delete(m.calls, id)
}

// reconcile serves the calls in the ClusterAdvertisement and corrects what is shown to the member.
func (m *memberSession) reconcile(ctx context.Context) error {
	key := client.ObjectKey{Namespace: m.namespace, Name: kubernetes.AdvertisementName(m.cluster)}
	object := kubernetes.Object(kubernetes.Advertisements, key.Namespace, key.Name)
	if err := m.client.Get(ctx, key, object); apierrors.IsNotFound(err) {
		object = kubernetes.Object(kubernetes.Advertisements, key.Namespace, key.Name)
		object.Object["spec"] = map[string]any{"clusterID": m.cluster}
		if err := m.client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil // the creation wakes the session
	} else if err != nil {
		return err
	}
	var spec kubernetes.Spec
	var before kubernetes.Status
	wrong := kubernetes.Part(object, "spec", &spec)
	_ = kubernetes.Part(object, "status", &before) // an unreadable status is written again
	status := kubernetes.Status{Observed: before.Observed}
	if wrong == nil && spec.ClusterID != m.cluster {
		wrong = api.Errorf(api.CodeForbidden, "cluster %s may not speak for %.80q",
			m.cluster, spec.ClusterID).At("spec.clusterID").Fix("speak for %s", m.cluster)
	}
	if wrong == nil && len(spec.Calls) > 4*kubernetes.MaxCalls {
		server.CountRefused("calls")
		wrong = api.Errorf(api.CodeTooLarge, "%d calls at a time", len(spec.Calls)).At("spec.calls").
			Fix("make at most %d", kubernetes.MaxCalls)
	}
	if wrong != nil {
		spec.Calls = nil
		status.Message = wrong.Error()
	} else if spec.Timestamp != "" {
		status.Message = before.Message // the message about this timestamp
		m.agent.Advertise(ctx, spec, &status)
	}
	m.serveCalls(ctx, spec.Calls, before.Answers)
	status.Answers = m.answers(before.Answers, spec.Calls)
	state := m.describeMember(ctx, &status)
	if err := m.write(ctx, object, status); err != nil {
		return err
	}
	m.followMarket(ctx, state)
	began := time.Now()
	if began.Before(m.again) || !m.changed.Swap(false) {
		return nil
	}
	err := m.writeReservations(ctx, state)
	if err != nil && ctx.Err() == nil { // the member's calls do not wait for that
		m.log.Warn("a member's Reservations could not be written", "error", err)
		m.changed.Store(true)
		m.wait = longer(m.wait)
		m.again = time.Now().Add(m.wait)
		time.AfterFunc(m.wait, m.wake)
		return nil
	}
	m.wait = 0
	m.took.Store(int64(time.Since(began)))
	return nil
}

// longer returns how long to wait after another failure.
func longer(wait time.Duration) time.Duration {
	return min(max(2*wait, 100*time.Millisecond), 5*time.Second)
}

// describeMember writes the membership into the status.
func (m *memberSession) describeMember(ctx context.Context, s *kubernetes.Status) api.MemberState {
	s.Phase = "Stale"
	l := m.Server.Exchange.View().Listing(m.cluster)
	if l == nil || l.Member == nil {
		if s.Message == "" {
			s.Message = "nobody has shown a card of this cluster yet: start its agent"
		}
		return ""
	}
	s.Member = l.Member.State
	switch s.Member {
	case api.MemberPending:
		s.Message = fmt.Sprintf("it waits for an operator: bourse broker approve %s", m.cluster)
	case api.MemberActive:
		if c, err := m.api().Cluster(ctx, m.cluster); err == nil {
			if s.Active = c.Payload.Fresh; s.Active {
				s.Phase = "Active"
			}
			shown := c.Payload
			// these change all the time
			shown.FreshUntil, shown.HeardAgo, shown.Sequence, shown.Uptime = metav1.Time{}, nil, api.Sequence{}, nil
			s.Cluster = &shown
		}
	default:
		s.Message = fmt.Sprintf("the member is %s: ask the operator", s.Member)
	}
	return s.Member
}

// write writes a status if it differs.
func (m *memberSession) write(ctx context.Context, object *unstructured.Unstructured, status any) error {
	want, err := content(status)
	if err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(object.Object["status"], any(want)) {
		return nil
	}
	after := object.DeepCopy()
	after.Object["status"] = want
	return client.IgnoreNotFound(m.client.Status().Patch(ctx, after, client.MergeFrom(object)))
}

// content converts a value to the form of unstructured objects.
func content(v any) (out map[string]any, err error) {
	data, err := json.Marshal(v)
	if err == nil {
		err = utiljson.Unmarshal(data, &out)
	}
	return out, err
}
