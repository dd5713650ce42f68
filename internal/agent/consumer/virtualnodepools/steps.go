package virtualnodepools

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// carryOut does the steps of a plan, and clears away what is over. It reports whether it did anything.
func (c *Controller) carryOut(ctx context.Context, pool *api.VirtualNodePool, m *memory, all *children,
	plan *vnp.Plan) (stepped bool, err error) {
	ends := map[string]bool{}
	for _, step := range plan.Steps {
		ends[step.Provider] = ends[step.Provider] || step.Verb == vnp.Release || step.Verb == vnp.Clear
	}
	for provider, child := range all.requests {
		over, err := c.clear(ctx, m, all, provider, child, ends[provider])
		if stepped = stepped || over; err != nil {
			return stepped, err
		}
	}
	for provider, child := range all.beside {
		over, err := c.clearBeside(ctx, m, all, provider, child, ends[provider])
		if stepped = stepped || over; err != nil {
			return stepped, err
		}
	}
	fresh := true
	if slices.ContainsFunc(plan.Steps, grows) {
		if fresh, err = c.isFresh(ctx, pool, all, plan.Steps); err != nil {
			return stepped, err
		}
	}
	for _, step := range plan.Steps {
		if grows(step) && (!fresh || !m.mayAsk(all.requests[step.Provider], step, all.seen.Now)) {
			continue
		}
		if err := c.do(ctx, pool, all, step); err != nil {
			return stepped, err
		}
		stepped = true
	}
	return stepped || !fresh, c.evict(ctx, plan.Evict, false)
}

// clear deletes the request of a provider that is over, and takes off what it carries no longer. ends says that the
// plan ends it. It reports whether it deleted it.
func (c *Controller) clear(ctx context.Context, m *memory, all *children, provider string, child *child,
	ends bool) (deleted bool, err error) {
	switch {
	case child.DeletionTimestamp != nil:
	case child.isOver(), awaitsApproval(child):
		m.pauseFailed(provider, all.seen.Now, child)
		return true, c.delete(ctx, child)
	case !ends && child.Annotations[vnp.DrainAnnotation] != "":
		return false, c.annotate(ctx, child, vnp.DrainAnnotation, "")
	case isWishMet(child):
		return false, c.annotate(ctx, child, vnp.WishAnnotation, "")
	case refusedSize(child, all.seen.Now) && m.paused[provider].change != child.changeName():
		// it keeps what it has, and is not asked for another size for a while
		if child.record.Change.Reason != api.ReasonCapReached { // the broker refused that, not the provider
			m.pause(provider, all.seen.Now, child)
		}
		return false, c.edit(ctx, child, func(s *api.ResourceRequestSpec) { s.Resources = child.record.Size.Resources() })
	}
	return false, nil
}

// clearBeside deletes a second request of a provider once it failed, once the first took its place, or when the plan
// ends the provider. It reports whether it deleted it.
func (c *Controller) clearBeside(ctx context.Context, m *memory, all *children, provider string, child *child,
	ends bool) (deleted bool, err error) {
	failed := child.isOver() || awaitsApproval(child)
	succeeded := all.requests[provider].Annotations[vnp.SucceedsAnnotation] == string(child.UID)
	if child.DeletionTimestamp != nil || !failed && !succeeded && !ends {
		return false, nil
	}
	if failed && !succeeded {
		m.pauseFailed(provider, all.seen.Now, child)
	}
	err = c.delete(ctx, child)
	return err == nil, err
}

// evict evicts pods within their PodDisruptionBudgets. force deletes them at once.
func (c *Controller) evict(ctx context.Context, pods []*corev1.Pod, force bool) error {
	for _, pod := range pods {
		if _, err := c.evictor.Evict(ctx, pod, force); err != nil {
			return err
		}
	}
	return nil
}

func grows(s vnp.Step) bool { return s.Verb == vnp.Create || s.Verb == vnp.Resize }

// isFresh reports whether the requests were planned with as they are: the cache may lag behind the
// last step, and growing twice for the same pods could exceed max. Nor may another pool have a request at a new
// provider: each would count the pods of both.
func (c *Controller) isFresh(ctx context.Context, pool *api.VirtualNodePool,
	all *children, steps []vnp.Step) (bool, error) {
	var list api.ResourceRequestList
	if err := c.options.Reader.List(ctx, &list, client.InNamespace(c.options.Namespace),
		client.HasLabels{api.VirtualNodePoolLabel}); err != nil {
		return false, err
	}
	var requests []api.ResourceRequest
	for _, r := range list.Items {
		if r.Labels[api.VirtualNodePoolLabel] == pool.Name {
			requests = append(requests, r)
		} else if slices.ContainsFunc(steps, func(s vnp.Step) bool {
			return s.Verb == vnp.Create && s.Provider == r.Spec.Target
		}) {
			return false, nil
		}
	}
	known := map[types.UID]int64{}
	for _, requests := range []map[string]*child{all.requests, all.beside} {
		for _, child := range requests {
			known[child.UID] = child.Generation
		}
	}
	return len(requests) == len(known) && !slices.ContainsFunc(requests, func(r api.ResourceRequest) bool {
		return known[r.UID] != r.Generation
	}), nil
}

// awaitsApproval reports whether a provider wants a person to approve: it is no candidate.
func awaitsApproval(child *child) bool { return child.record != nil && child.record.AwaitsApproval() }

// isWishMet reports whether the reservation is as small as its virtual node: it may grow again.
func isWishMet(child *child) bool {
	wish := vnp.ReadWish(child.ResourceRequest)
	return wish != nil && child.record != nil && wish.Equal(child.record.Size)
}

// do does one step.
func (c *Controller) do(ctx context.Context, pool *api.VirtualNodePool, all *children, step vnp.Step) error {
	child := all.requests[step.Provider]
	if child == nil {
		if step.Verb != vnp.Create {
			return nil
		}
		return c.create(ctx, pool, step, nil)
	}
	switch step.Verb {
	case vnp.Renew:
		return c.create(ctx, pool, step, child)
	case vnp.Resize:
		if child.node != nil && child.record != nil && child.record.Size.Fits(step.Size) { // it becomes smaller
			if fits, err := c.evictor.Fits(ctx, child.node.Name, step.Size.Resources(), all.namespaces,
				child.shares); err != nil || !fits {
				return err
			}
		}
		return c.resize(ctx, pool, child, step)
	case vnp.Extend:
		return c.extend(ctx, pool, child, step.Until)
	case vnp.Lower:
		return c.annotate(ctx, child, vnp.WishAnnotation, vnp.WriteWish(step.Size))
	case vnp.Restore:
		return c.annotate(ctx, child, vnp.WishAnnotation, "")
	case vnp.Release:
		return c.release(ctx, pool, all, step.Provider)
	case vnp.Clear:
		if len(step.Pods) > 0 {
			return c.evict(ctx, step.Pods, true)
		}
		return c.delete(ctx, child)
	}
	return nil
}

// nameOf returns the name of the request for a provider that succeeds another: the same each time, so that it
// is made once.
func nameOf(pool *api.VirtualNodePool, provider string, before *child) string {
	text := string(pool.UID) + "/" + provider
	if before != nil {
		text += "/" + string(before.UID)
	}
	digest := sha256.Sum256([]byte(text))
	return pool.Name + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(digest[:]))[:digestLetters]
}

// digestLetters is how many letters of a digest end the name of a request.
const digestLetters = 5

// isNameOf reports whether a name is that of a request of a pool. No other pool has such a name.
func isNameOf(pool *api.VirtualNodePool, name string) bool {
	digest, ok := strings.CutPrefix(name, pool.Name+"-")
	return ok && len(digest) == digestLetters && !strings.Contains(digest, "-")
}

// create makes the request of a provider. It may succeed another, and then has the same virtual node.
func (c *Controller) create(ctx context.Context, pool *api.VirtualNodePool, step vnp.Step, before *child) error {
	request := &api.ResourceRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.options.Namespace, Name: nameOf(pool, step.Provider, before),
			Labels:          map[string]string{api.VirtualNodePoolLabel: pool.Name},
			Annotations:     map[string]string{templateAnnotation: digestOf(pool.Spec.Template)},
			OwnerReferences: []metav1.OwnerReference{ownerOf(pool)},
		},
		Spec: api.ResourceRequestSpec{Request: c.request(pool), Broker: pool.Spec.Template.Broker},
	}
	spec := &request.Spec
	spec.Target, spec.Resources, spec.MaxPrice = step.Provider, step.Size.Resources(), step.MaxPrice
	if before != nil {
		request.Annotations[vnp.SucceedsAnnotation], spec.RelendKey = string(before.UID), before.record.RelendKey
	}
	err := c.options.Client.Create(ctx, request)
	if err == nil {
		c.showStep(pool, step.Provider, "Asked", "is asked for "+sizeText(step.Size))
	}
	return client.IgnoreAlreadyExists(err) // of before: it is being deleted
}

// resize asks for another size.
func (c *Controller) resize(ctx context.Context, pool *api.VirtualNodePool, child *child, step vnp.Step) error {
	had, err := amounts.ParseRequest("resources", child.Spec.Resources)
	if err != nil {
		return err
	}
	err = c.edit(ctx, child, func(s *api.ResourceRequestSpec) {
		s.Resources, s.MaxPrice = step.Size.Resources(), step.MaxPrice
	})
	if err == nil && !had.Equal(step.Size) {
		c.showStep(pool, step.Provider, "Resized", "is asked for "+sizeText(step.Size)+" instead of "+sizeText(had))
	}
	return err
}

// ownerOf names a pool as the owner of a request. It blocks no deletion: that needs one right more.
func ownerOf(pool *api.VirtualNodePool) metav1.OwnerReference {
	owner := *metav1.NewControllerRef(pool, api.GroupVersion.WithKind("VirtualNodePool"))
	owner.BlockOwnerDeletion = nil
	return owner
}

// extend asks for a later end, unless one is asked for that lasts long enough.
func (c *Controller) extend(ctx context.Context, pool *api.VirtualNodePool, child *child, until time.Time) error {
	begun := child.record.Created.Go()
	asked := begun.Add(api.DurationOf(child.Spec.Duration))
	if until.Sub(asked) < api.DurationOf(pool.Spec.Template.Duration)/16 {
		return nil
	}
	return c.edit(ctx, child, func(s *api.ResourceRequestSpec) {
		s.Duration = &metav1.Duration{Duration: until.Sub(begun).Truncate(time.Second)}
	})
}

// release empties the virtual node of a provider in order, and then ends its request. Where requests have something of
// the virtual node, too, the end of the reservation does so, within its graces.
func (c *Controller) release(ctx context.Context, pool *api.VirtualNodePool, all *children, provider string) error {
	child := all.requests[provider]
	switch {
	case child.DeletionTimestamp != nil:
		return nil
	case child.node == nil: // no pod ever ran there
		c.showStep(pool, provider, "Leaves", "is given back: no pod ran there")
		return c.delete(ctx, child)
	case child.shares: // requests go on there, so that only the pool's namespaces leave
		c.showStep(pool, provider, "Leaves", "is given back; requests keep the virtual node")
		return c.delete(ctx, child)
	case child.Annotations[vnp.DrainAnnotation] == "":
		c.showStep(pool, provider, "Leaves", "is given back once its pods have left")
		return c.annotate(ctx, child, vnp.DrainAnnotation, "true")
	case child.node.Spec.Unschedulable:
		if pods, err := c.evictor.Remaining(ctx, child.node.Name); err != nil {
			return err
		} else if len(pods) == 0 {
			return c.delete(ctx, child)
		}
	}
	c.options.Serve(provider)
	return nil
}

func (c *Controller) delete(ctx context.Context, child *child) error {
	return client.IgnoreNotFound(c.options.Client.Delete(ctx, child.ResourceRequest,
		client.Preconditions{UID: &child.UID}))
}

func (c *Controller) edit(ctx context.Context, child *child, change func(*api.ResourceRequestSpec)) error {
	return kubeobject.Change(ctx, c.options.Client, child.ResourceRequest, func() { change(&child.Spec) })
}

// annotate sets an annotation of a request, or removes it, and lets its virtual node follow.
func (c *Controller) annotate(ctx context.Context, child *child, name, value string) error {
	err := kubeobject.Change(ctx, c.options.Client, child.ResourceRequest, func() {
		if metav1.SetMetaDataAnnotation(&child.ObjectMeta, name, value); value == "" {
			delete(child.Annotations, name)
		}
	})
	if err == nil {
		c.options.Serve(child.Spec.Target)
	}
	return err
}
