package ui

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// mostPods is how many pods of a request are read before no other namespace is.
const mostPods = 500

// pods reads the pods of a request, as its user. Nothing watches pods: they are read as questions are asked.
func (u *UI) pods(ctx context.Context, a pages.Asked) *pages.Pods {
	nodes, namespaces := podsAt(a)
	if len(nodes) == 0 {
		return nil
	}
	name := "pods/" + strings.Join(namespaces, ",") + "/" + strings.Join(nodes, ",")
	p, err := ask(ofObjects(ctx), u.source, question{name, "the pods"}, func(ctx context.Context) (pages.Pods, error) {
		return u.readPods(ctx, namespaces, nodes)
	})
	p.Failed = asError(err)
	if len(p.Hidden) > 0 {
		if impact, err := u.source.impact(ctx, a.Namespace, a.Name); err == nil && impact.Pods != nil {
			p.Others = max(0, impact.Pods.Count-p.OnNodes())
		}
	}
	return &p
}

// podsAt returns the virtual nodes of a request that has not ended, and the namespaces whose pods may run there. The node ""
// is among them if the namespaces are offloaded: pods that have no node yet.
func podsAt(a pages.Asked) (nodes, namespaces []string) {
	for _, i := range a.Instructions {
		if over := i.Status.State != "" && i.Status.State.Over(); i.Spec.Slice != "" && !over {
			nodes = append(nodes, i.Spec.Slice)
		}
		for _, of := range i.Status.Namespaces {
			namespaces = append(namespaces, of.Name)
		}
	}
	if o := a.Request.Payload.Offload; o != nil {
		namespaces = append(namespaces, o.Namespaces...)
	}
	if len(namespaces) > 0 && len(nodes) > 0 {
		nodes = append(nodes, "")
	}
	if len(namespaces) == 0 {
		namespaces = []string{a.Namespace}
	}
	slices.Sort(nodes)
	slices.Sort(namespaces)
	return slices.Compact(nodes), slices.Compact(namespaces)
}

// readPods reads the pods of namespaces on nodes. What the user may not list is named.
func (u *UI) readPods(ctx context.Context, namespaces, nodes []string) (pages.Pods, error) {
	var all []corev1.Pod
	var hidden []string
	more := false
	for _, namespace := range namespaces {
		for _, node := range nodes {
			if len(all) >= mostPods {
				more = true
				break
			}
			some, others, err := u.o.Acts.PodsOn(ctx, namespace, node)
			if err != nil && api.CodeOf(err) == api.CodeForbidden {
				hidden = append(hidden, namespace)
				break
			}
			if err != nil {
				return pages.Pods{}, err
			}
			all, more = append(all, some...), more || others
		}
	}
	p := pages.NewPods(all)
	p.More, p.Hidden = more, hidden
	return p, nil
}

// ofObjects returns a context for what the API server is asked: a page says of the agent alone how old its answers are.
func ofObjects(ctx context.Context) context.Context {
	return context.WithValue(ctx, readingKey{}, (*reading)(nil))
}
