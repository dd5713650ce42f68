package pages

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/explain"
)

// Pods are the pods of a request: those on its virtual nodes, and those of its namespaces that wait for a node.
type Pods struct {
	All  []Pod // those that cannot run first
	More bool  // there are others, which were not read
	// Hidden are the namespaces whose pods the user may not list. Others is how many pods the virtual nodes have beside
	// those of All; 0: that is not known, or there are none.
	Hidden []string
	Others int
	Failed *api.Error // why they could not be read
}

// Pod is one of them.
type Pod struct {
	Namespace, Name string
	Node            string // "": it has none yet
	Word, Why       string // as explain.Pod says them
}

// NewPods returns pods, those first that cannot run. Those that have ended well are left out.
func NewPods(all []corev1.Pod) (p Pods) {
	for i := range all {
		o := &all[i]
		word, why := explain.Pod(o)
		if o.Status.Phase != corev1.PodSucceeded {
			p.All = append(p.All, Pod{o.Namespace, o.Name, o.Spec.NodeName, word, why})
		}
	}
	rank := map[Tone]int{Bad: 0, Warn: 1, Wait: 2, OK: 3, Off: 4}
	slices.SortFunc(p.All, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(rank[a.tone()], rank[b.tone()]), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return p
}

// OnNodes returns how many pods have a node and have not ended.
func (p Pods) OnNodes() (n int) {
	for _, pod := range p.All {
		if pod.Node != "" && pod.Word != "Failed" {
			n++
		}
	}
	return n
}

func (p Pod) tone() Tone {
	switch {
	case p.Word == "Failed":
		return Bad
	case p.Why != "":
		return Warn
	case p.Word == "Runs":
		return OK
	case p.Word == "Ends":
		return Off
	}
	return Wait
}

// shown returns the pods that the page shows, and says how many more there are; empty: none.
func (p Pods) shown() (some []Pod, more string) {
	some = p.All[:min(len(p.All), perPage)]
	switch left := len(p.All) - len(some); {
	case left > 0 && p.More:
		more = "and at least " + explain.Count(left, "more pod")
	case left > 0:
		more = "and " + explain.Count(left, "more pod")
	case p.More:
		more = "and others, which were not read"
	}
	return some, more
}
