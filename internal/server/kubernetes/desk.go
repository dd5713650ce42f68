package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
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
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// desk is where one member is served. All but its waking is on one goroutine.
type desk struct {
	*office
	cluster, namespace string
	log                *slog.Logger
	close              func()
	woken              chan struct{}
	changed            atomic.Bool  // there may be something new to be painted
	took               atomic.Int64 // the last painting, in nanoseconds
	calls              map[string]*job
	agent              objects.Agent // serves an agent of the prototypes
	watching           func()        // ends the watch of the member's reservations
	admitted           bool          // whether this desk let the member in, that is still so
}

// job is a call that is answered.
type job struct {
	stream *stream
	cancel context.CancelFunc
}

func newDesk(f *office, cluster, namespace string) *desk {
	d := &desk{office: f, cluster: cluster, namespace: namespace, log: f.log.With("cluster", cluster), woken: make(chan struct{}, 1), calls: map[string]*job{}}
	d.agent = objects.Agent{Cluster: cluster, Exchange: f.Server.Exchange, Call: d.own, Client: f.client, Go: f.all.Go, Changed: d.change, Log: d.log}
	d.changed.Store(true)
	return d
}

func (d *desk) wake() {
	select {
	case d.woken <- struct{}{}:
	default:
	}
}

// change is wake, where what is shown of the market may not be right any more.
func (d *desk) change() {
	d.changed.Store(true)
	d.wake()
}

// run serves the member until ctx ends.
func (d *desk) run(ctx context.Context) {
	again := time.NewTicker(d.Again)
	defer again.Stop()
	defer d.hangUp()
	if !d.cache.WaitForCacheSync(ctx) {
		return
	}
	for wait := time.Duration(0); ; {
		err := d.look(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			d.log.Warn("a member's objects could not be written", "error", err)
			wait = min(max(2*wait, 100*time.Millisecond), 5*time.Second)
			pause(ctx, wait)
			continue
		}
		wait = 0
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			d.changed.Store(true)
		case <-d.woken:
		}
	}
}

func (d *desk) hangUp() {
	for id := range d.calls {
		d.drop(id)
	}
	if d.watching != nil {
		d.watching()
	}
}

func (d *desk) drop(id string) {
	d.calls[id].cancel()
	delete(d.calls, id)
}

// look serves the calls that are there, and puts right what is shown.
func (d *desk) look(ctx context.Context) error {
	key := client.ObjectKey{Namespace: d.namespace, Name: kubernetes.AdvertisementName(d.cluster)}
	object := kubernetes.Object(kubernetes.Advertisements, key.Namespace, key.Name)
	if err := d.client.Get(ctx, key, object); apierrors.IsNotFound(err) {
		object = kubernetes.Object(kubernetes.Advertisements, key.Namespace, key.Name)
		object.Object["spec"] = map[string]any{"clusterID": d.cluster}
		if err := d.client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil // its coming wakes us
	} else if err != nil {
		return err
	}
	var spec kubernetes.Spec
	var before kubernetes.Status
	wrong := kubernetes.Part(object, "spec", &spec)
	_ = kubernetes.Part(object, "status", &before) // what is not readable is written anew
	status := kubernetes.Status{Observed: before.Observed}
	if wrong == nil && spec.ClusterID != d.cluster {
		wrong = api.Errorf(api.CodeForbidden, "cluster %s may not speak for %.80q", d.cluster, spec.ClusterID).At("spec.clusterID").Fix("speak for %s", d.cluster)
	}
	if wrong == nil && len(spec.Calls) > 4*kubernetes.MaxCalls {
		server.CountRefused("calls")
		wrong = api.Errorf(api.CodeTooLarge, "%d calls at a time", len(spec.Calls)).At("spec.calls").Fix("make at most %d", kubernetes.MaxCalls)
	}
	if wrong != nil {
		spec.Calls = nil
		status.Message = wrong.Error()
	} else if spec.Timestamp != "" {
		status.Message = before.Message // of this one
		d.agent.Advertise(ctx, spec, &status)
	}
	d.serve(ctx, spec.Calls, before.Answers)
	status.Answers = d.answers(before.Answers, spec.Calls)
	state := d.describe(ctx, &status)
	if err := d.write(ctx, object, status); err != nil {
		return err
	}
	d.attend(ctx, state)
	if !d.changed.Swap(false) {
		return nil
	}
	began := time.Now()
	if err := d.paint(ctx, state); err != nil {
		d.changed.Store(true)
		return err
	}
	d.took.Store(int64(time.Since(began)))
	return nil
}

// serve begins the calls that are new, goes on with those that are read, and ends those that were taken away.
func (d *desk) serve(ctx context.Context, calls map[string]kubernetes.Call, answers map[string]kubernetes.Answer) {
	for id := range d.calls {
		if _, still := calls[id]; !still {
			d.drop(id)
		}
	}
	for id, c := range calls {
		j := d.calls[id]
		if _, answered := answers[id]; j == nil && answered {
			continue // by a broker that is no more: see answers
		}
		if j == nil {
			j = d.begin(ctx, c)
			d.calls[id] = j
		}
		j.stream.read(c.Read)
	}
}

// answers are those to be shown.
func (d *desk) answers(before map[string]kubernetes.Answer, calls map[string]kubernetes.Call) map[string]kubernetes.Answer {
	out := map[string]kubernetes.Answer{}
	for id := range calls {
		if j := d.calls[id]; j != nil {
			if piece, ok := j.stream.piece(); ok {
				out[id] = piece
			}
			continue
		}
		a := before[id]
		a.Lost = !a.Done
		out[id] = a
	}
	return out
}

// begin makes a call of the REST API as the member.
func (d *desk) begin(ctx context.Context, c kubernetes.Call) *job {
	ctx, cancel := context.WithCancel(as(ctx, tlsid.RoleCluster, d.cluster))
	j := &job{newStream(d.wake), cancel}
	r, err := d.request(ctx, c)
	if err != nil {
		server.Refuse(j.stream, err)
		j.stream.end()
		return j
	}
	stop := j.stream.until(ctx)
	d.all.Go(func() {
		defer stop()
		defer j.stream.end()
		d.rest.ServeHTTP(j.stream, r)
	})
	return j
}

// apart are the calls that are not made for a member that shows a token of the broker's cluster: with a certificate it would be
// one for longer than its token is good.
var apart = []string{api.Prefix + "/join", api.Prefix + "/renew"}

// request is a call as REST has it. Errors: Invalid, Forbidden, TooLarge.
func (d *desk) request(ctx context.Context, c kubernetes.Call) (*http.Request, error) {
	if len(c.Body) > kubernetes.MaxBody {
		return nil, api.Errorf(api.CodeTooLarge, "the call has %d bytes", len(c.Body)).At("body").Fix("send at most %d", kubernetes.MaxBody)
	}
	at, err := url.ParseRequestURI(c.Path)
	if err != nil || at.Host != "" || !strings.HasPrefix(at.Path, api.Prefix+"/") {
		return nil, api.Invalid("path", "%.80q is not a path of the API", c.Path).Fix("call what is under %s: /openapi.yaml", api.Prefix)
	}
	for _, path := range apart {
		if at.Path == path {
			return nil, api.Errorf(api.CodeForbidden, "%s is not answered through objects", path).Fix("ask the broker's operator for a kubeconfig: bourse broker kubeconfig %s", d.cluster)
		}
	}
	r, err := http.NewRequestWithContext(ctx, c.Method, "http://objects"+at.RequestURI(), strings.NewReader(c.Body))
	if err != nil {
		return nil, api.Invalid("method", "%.20q is none", c.Method).Fix("use one of REST: GET, POST, PUT, PATCH, DELETE")
	}
	r.RequestURI, r.RemoteAddr = at.RequestURI(), "namespace "+d.namespace
	r.Header.Set("Content-Type", "application/json")
	if c.Key != "" {
		r.Header.Set("Idempotency-Key", c.Key)
	}
	return r, nil
}

// describe says how the member stands.
func (d *desk) describe(ctx context.Context, s *kubernetes.Status) api.MemberState {
	s.Phase = "Stale"
	l := d.Server.Exchange.View().Listing(d.cluster)
	if l == nil || l.Member == nil {
		if s.Message == "" {
			s.Message = "nobody has shown a card of this cluster yet: start its agent"
		}
		return ""
	}
	s.Member = l.Member.State
	switch s.Member {
	case api.MemberPending:
		s.Message = fmt.Sprintf("it waits for an operator: bourse broker approve %s", d.cluster)
	case api.MemberActive:
		if c, err := d.api().Cluster(ctx, d.cluster); err == nil {
			if s.Active = c.Payload.Fresh; s.Active {
				s.Phase = "Active"
			}
			shown := c.Payload
			shown.FreshUntil, shown.Sequence, shown.Uptime = metav1.Time{}, api.Sequence{}, nil // they change all the time
			s.Cluster = &shown
		}
	default:
		s.Message = fmt.Sprintf("the member is %s: ask the operator", s.Member)
	}
	return s.Member
}

// write writes a status, if it is another.
func (d *desk) write(ctx context.Context, object *unstructured.Unstructured, status any) error {
	want, err := content(status)
	if err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(object.Object["status"], any(want)) {
		return nil
	}
	after := object.DeepCopy()
	after.Object["status"] = want
	return client.IgnoreNotFound(d.client.Status().Patch(ctx, after, client.MergeFrom(object)))
}

// content is a value as objects have it.
func content(v any) (out map[string]any, err error) {
	data, err := json.Marshal(v)
	if err == nil {
		err = utiljson.Unmarshal(data, &out)
	}
	return out, err
}
