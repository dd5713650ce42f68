package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

const (
	noisy = "noisy" // the namespace with very many requests
	quiet = "quiet" // the one with a single request at a time
	stays = "stays" // a request in each of the two, so that their virtual nodes stay
)

// turns measures what the requests of one namespace cost those of another, on the real Liqo: the time of a request
// alone, then with 2,000 others that no provider can serve, then with 2,000 others that all ask at once and could be
// served. It also measures the CPU time of both agents for a reservation, from its request to its end.
func turns(ctx context.Context, b *bench) ([]Figure, error) {
	many, some, each := b.count(2_000), max(b.count(200), 100), max(b.count(5), 2)
	c := &crowd{profile: b.profile}
	defer c.stop()
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	figures, err := c.cost(ctx, some)
	if err != nil {
		return nil, err
	}
	alone, err := c.ask(ctx, each)
	if err != nil {
		return nil, err
	}
	say("%d requests that wait for a provider ...", many)
	if err := c.create(ctx, many, unservable()); err != nil {
		return nil, err
	}
	if err := c.all(ctx, "wait for a provider", waitsForProvider); err != nil {
		return nil, err
	}
	waiting, err := c.ask(ctx, each)
	if err != nil {
		return nil, err
	}
	if err := c.end(ctx); err != nil {
		return nil, err
	}
	say("%d requests at once ...", many)
	if err := c.create(ctx, many, small()); err != nil {
		return nil, err
	}
	before, err := c.left(ctx, isActive)
	if err != nil {
		return nil, err
	}
	busy, err := c.ask(ctx, each)
	if err != nil {
		return nil, err
	}
	after, err := c.left(ctx, isActive)
	if err != nil {
		return nil, err
	}
	bound := rounded(2*alone.active() + 2)
	return append(figures,
		plain("a request alone to Active, median", alone.active(), "s"),
		atMost(bound, fmt.Sprintf("the same beside %d requests that wait, slowest", many), waiting.slowest(), "s"),
		atMost(bound, fmt.Sprintf("the same beside %d requests at once, slowest", many), busy.slowest(), "s"),
		plain("of these not Active yet, before and after", float64(before), fmt.Sprintf("and %d", after)),
		atMost(1, "delete to the provider's release, alone, slowest", alone.released(), "s"),
		atMost(1, "the same beside requests that wait, slowest", waiting.released(), "s"),
		atMost(1, "the same beside requests at once, slowest", busy.released(), "s"),
	), nil
}

// crowd is a federation of two clusters with Liqo, in which a peering and a virtual node stand.
type crowd struct {
	readiness
	profile string
}

func (c *crowd) begin(ctx context.Context) (err error) {
	if c.profile != "" {
		if c.binary, err = os.Executable(); err != nil {
			return err
		}
	}
	if err := c.start(ctx); err != nil {
		return err
	}
	for _, name := range []string{noisy, quiet} {
		if err := c.rome.Objects.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
		if _, err := c.active(ctx, name, stays); err != nil {
			return err
		}
	}
	return nil
}

func small() api.Request {
	return api.Request{Target: "milan", Resources: resources("cpu", "1m", "memory", "1Mi")}
}

// unservable is what no provider has, so it waits.
func unservable() api.Request {
	return api.Request{
		Target: "milan", Resources: resources("cpu", "1000"), Wait: &metav1.Duration{Duration: 24 * time.Hour},
	}
}

func newRequest(namespace, name string, asks api.Request) *api.ResourceRequest {
	return &api.ResourceRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       api.ResourceRequestSpec{Request: asks},
	}
}

// waitsForProvider reports whether a request has had its turn, and has no provider. A broker queues some of them, and
// refuses the others, which the agent asks for again and again.
func waitsForProvider(r *api.ResourceRequest) bool {
	reserved := meta.FindStatusCondition(r.Status.Conditions, api.ConditionReserved)
	return reserved != nil && (reserved.Reason == string(api.ReasonNoCandidate) || reserved.Reason == string(api.CodeCapReached))
}

func isActive(r *api.ResourceRequest) bool { return r.Status.State == api.Active }

// active makes a small request, and waits until it is Active.
func (c *crowd) active(ctx context.Context, namespace, name string) (*api.ResourceRequest, error) {
	r := newRequest(namespace, name, small())
	return r, until(ctx, c.rome.Objects, &api.ResourceRequestList{}, namespace,
		func() error { return c.rome.Objects.Create(ctx, r) },
		func(e watch.Event) bool {
			now, is := e.Object.(*api.ResourceRequest)
			if !is || now.Name != name || !isActive(now) {
				return false
			}
			*r = *now
			return true
		})
}

// until watches objects of a namespace while do is done, and returns at the first event that is wanted.
func until(ctx context.Context, at kube.WithWatch, of kube.ObjectList, namespace string,
	do func() error, wanted func(watch.Event) bool) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	w, err := at.Watch(ctx, of, kube.InNamespace(namespace))
	if err != nil {
		return err
	}
	defer w.Stop()
	if err := do(); err != nil {
		return err
	}
	for e := range w.ResultChan() {
		if wanted(e) {
			return nil
		}
	}
	return errors.Join(ctx.Err(), errors.New("the watch ended"))
}

// waits are how long the requests of the quiet namespace took until they were Active, and their ends until the
// provider released, in seconds.
type waits struct{ asked, ended []float64 }

func (w waits) active() float64   { return slices.Sorted(slices.Values(w.asked))[len(w.asked)/2] }
func (w waits) slowest() float64  { return slices.Max(w.asked) }
func (w waits) released() float64 { return slices.Max(w.ended) }

// ask makes some requests in the quiet namespace, one after the other, and ends each.
func (c *crowd) ask(ctx context.Context, n int) (w waits, err error) {
	for i := range n {
		begun := time.Now()
		r, err := c.active(ctx, quiet, fmt.Sprintf("asks-%d-%d", begun.Unix(), i))
		if err != nil {
			return w, err
		}
		w.asked = append(w.asked, time.Since(begun).Seconds())
		time.Sleep(rest)
		begun = time.Now()
		err = until(ctx, c.milan.Objects, &api.ProviderInstructionList{}, api.Namespace,
			func() error { return c.rome.Objects.Delete(ctx, r) },
			func(e watch.Event) bool {
				now, is := e.Object.(*api.ProviderInstruction)
				return is && now.Name == r.Status.Reservation && (e.Type == watch.Deleted || now.Status.State == api.Releasing)
			})
		if err != nil {
			return w, err
		}
		w.ended = append(w.ended, time.Since(begun).Seconds())
		say("load %s: Active after %.2f s, released after %.2f s", busy(), w.asked[i], w.ended[i])
		time.Sleep(rest)
	}
	return w, nil
}

// create makes requests in the noisy namespace.
func (c *crowd) create(ctx context.Context, n int, asks api.Request) error {
	return atOnceFor(ctx, n, func(i int) error {
		return c.rome.Objects.Create(ctx, newRequest(noisy, fmt.Sprintf("asks-%04d", i), asks))
	})
}

// all waits until all requests of the noisy namespace are so. It looks seldom, as each look is work for the API server.
func (c *crowd) all(ctx context.Context, what string, so func(*api.ResourceRequest) bool) error {
	return waitUntil(ctx, 30*time.Minute, "all "+what, func() (bool, error) {
		time.Sleep(rest)
		n, err := c.left(ctx, so)
		return n == 0, err
	})
}

// left returns how many requests of the noisy namespace are not yet so.
func (c *crowd) left(ctx context.Context, so func(*api.ResourceRequest) bool) (n int, err error) {
	var all api.ResourceRequestList
	err = c.rome.Objects.List(ctx, &all, kube.InNamespace(noisy))
	for i := range all.Items {
		if all.Items[i].Name != stays && !so(&all.Items[i]) {
			n++
		}
	}
	return n, err
}

// end deletes the requests of the noisy namespace but the one that stays, and waits until the provider has only the
// two that stay.
func (c *crowd) end(ctx context.Context) error {
	var all api.ResourceRequestList
	if err := c.rome.Objects.List(ctx, &all, kube.InNamespace(noisy)); err != nil {
		return err
	}
	err := atOnceFor(ctx, len(all.Items), func(i int) error {
		if all.Items[i].Name == stays {
			return nil
		}
		return c.rome.Objects.Delete(ctx, &all.Items[i])
	})
	if err != nil {
		return err
	}
	return waitUntil(ctx, 30*time.Minute, "all have ended", func() (bool, error) {
		time.Sleep(rest)
		var requests api.ResourceRequestList
		var instructions api.ProviderInstructionList
		err := errors.Join(c.rome.Objects.List(ctx, &requests), c.milan.Objects.List(ctx, &instructions))
		return len(requests.Items) == 2 && len(instructions.Items) == 2, err
	})
}

// cost measures the CPU time of both agents, and of the broker, for a reservation that is made and ended.
func (c *crowd) cost(ctx context.Context, n int) ([]Figure, error) {
	time.Sleep(10 * rest)
	idle, err := c.use(ctx, "", func() error { time.Sleep(20 * rest); return nil })
	if err != nil {
		return nil, err
	}
	used, err := c.use(ctx, c.profile, func() error {
		if err := c.create(ctx, n, small()); err != nil {
			return err
		}
		if err := c.all(ctx, "are Active", isActive); err != nil {
			return err
		}
		return c.end(ctx)
	})
	if err != nil {
		return nil, err
	}
	say("load %s: %d reservations in %.0f s", busy(), n, used.lasted.Seconds())
	of := func(role int) float64 {
		rest := idle.cpu[role].Seconds() / idle.lasted.Seconds() * used.lasted.Seconds()
		return (used.cpu[role].Seconds() - rest) / float64(n) * 1000
	}
	return []Figure{
		atMost(200, "consumer's agent, CPU time of a reservation made and ended", of(0), "ms"),
		atMost(200, "provider's agent, the same", of(1), "ms"),
		plain("broker, the same", of(2), "ms"),
		plain("reservations made and ended", float64(n)/used.lasted.Seconds(), "/s"),
	}, nil
}
