package pages

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/vnp"
)

// Pool is a VirtualNodePool with what it would do now.
type Pool struct {
	Pool api.Envelope[api.KnownVirtualNodePool]
	// Plan is the status that it would have if it decided now. Nil: the user may not ask, or the agent does not answer.
	Plan    *api.VirtualNodePoolStatus
	NotPlan *api.Error // why the agent does not answer
	Git     string     // what keeps the pool as it is in Git; "": nothing does
	// Samples are what it used and reserved since its page was opened, the oldest first. They are changes alone.
	Samples []Sample
}

// sizes returns what is used and reserved of the most that the pool may have, by resource.
func (p Pool) sizes(now time.Time) []poolSize {
	s, most := p.Pool.Payload.Status, p.Pool.Payload.Spec.Max
	var out []poolSize
	for _, name := range names(s.Used, s.Reserved, most) {
		used, reserved, all := s.Used[name], s.Reserved[name], most[name]
		text := Amount(string(name), used) + " of " + Amount(string(name), reserved) + ", at most " + Amount(string(name), all)
		out = append(out, poolSize{resourceLabel(string(name)), used.AsApproximateFloat64(), reserved.AsApproximateFloat64(),
			all.AsApproximateFloat64(), text, p.chart(name, now)})
	}
	return out
}

// poolSize is one resource of a pool.
type poolSize struct {
	Name                string
	Used, Reserved, Max float64
	Text                string
	Chart               *chart // nil: nothing was sampled
}

// toggle is the act on a provider: the command's word with a capital letter.
func (p Pool) toggle(provider string) string {
	if p.Pool.Payload.Spec.Providers.Admits(provider) {
		return "Disable"
	}
	return "Enable"
}

// excluded returns the providers that are excluded and have no virtual node any more.
func (p Pool) excluded() []string {
	return slices.DeleteFunc(slices.Clone(p.Pool.Payload.Spec.Providers.Exclude), func(name string) bool {
		return slices.ContainsFunc(p.Pool.Payload.Status.Providers, func(has api.PoolProvider) bool { return has.Name == name })
	})
}

// admitting returns the commands that enable a provider, or disable one that is enabled.
func (p Pool) admitting(provider string) []string {
	before := p.Pool.Payload.Spec.Providers
	after := before.Admit(provider, !before.Admits(provider))
	providers := map[string]any{}
	for name, lists := range map[string][2][]string{"only": {before.Only, after.Only}, "exclude": {before.Exclude, after.Exclude}} {
		if slices.Equal(lists[0], lists[1]) {
			continue
		}
		if providers[name] = lists[1]; len(lists[1]) == 0 {
			providers[name] = nil
		}
	}
	return []string{Quote("bourse", "vnp", strings.ToLower(p.toggle(provider)), p.Pool.ID, provider),
		patchCommand("", "virtualnodepool", p.Pool.ID, map[string]any{"providers": providers})}
}

// stopping returns the commands that end the pool. kubectl alone does not give volumes up.
func (p Pool) stopping() []string {
	if v := p.Pool.Payload.Status.Volumes(); v != nil {
		return []string{Quote("bourse", "vnp", "stop", p.Pool.ID, "--volumes-die", v.Digest)}
	}
	return []string{Quote("bourse", "vnp", "stop", p.Pool.ID), Quote("kubectl", "delete", "virtualnodepool", p.Pool.ID)}
}

// poolFault is what is wrong with a pool, and the conditions that say so.
type poolFault struct{ Conditions, Message string }

// faults returns what is wrong with the pool, without what its lead says: each message once.
func (p Pool) faults() (out []poolFault) {
	for _, c := range p.Pool.Payload.Status.Conditions {
		if !api.IsFaultOfPool(c) || c.Message == p.why() {
			continue
		}
		name := c.Type
		if c.Status == metav1.ConditionFalse { // a bare "Ready" would read as its opposite
			name = "not " + c.Type
		}
		if c.Reason != c.Type {
			name += " (" + c.Reason + ")"
		}
		i := slices.IndexFunc(out, func(f poolFault) bool { return f.Message == c.Message })
		if i < 0 {
			out = append(out, poolFault{name, c.Message})
		} else {
			out[i].Conditions += ", " + name
		}
	}
	return out
}

// commands returns those that a terminal has for a pool. One changes it, such as to raise spec.max.
func (p Pool) commands() []string {
	return []string{Quote("bourse", "vnp", "why", p.Pool.ID), Quote("kubectl", "edit", "virtualnodepool", p.Pool.ID),
		Quote("kubectl", "get", "virtualnodepool", p.Pool.ID, "-o", "yaml")}
}

// atMax reports whether the pool needs more than spec.max.
func (p Pool) atMax() bool {
	c := meta.FindStatusCondition(p.Pool.Payload.Status.Conditions, api.ConditionLimited)
	return c != nil && c.Status == metav1.ConditionTrue && c.Reason == vnp.LimitedByMax
}

// nextPlan says what the pool would do now, if that is not what it says already.
func (p Pool) nextPlan() string {
	if p.Plan == nil || p.Plan.Why == p.Pool.Payload.Status.Why {
		return ""
	}
	return p.Plan.Why
}

// growth says whether the pool grows for the pods that it can serve.
func (p Pool) growth() string {
	c := meta.FindStatusCondition(p.Pool.Payload.Status.Conditions, api.ConditionLimited)
	if c == nil || c.Status != metav1.ConditionTrue {
		return "and the pool grows for them."
	}
	if c.Message == p.why() {
		return "but the pool cannot grow."
	}
	return "but the pool cannot grow: " + sentence(c.Message)
}

// emptyText says why no provider serves the pool.
func (p Pool) emptyText() string {
	if count, _ := p.Pool.Payload.Status.Pending.Unserved(); count > 0 {
		return "The pool cannot serve the pods that wait. Under Pods that wait you see why."
	}
	return "The pool reserves capacity once pods of its namespaces wait."
}

// why says why the pool has its size.
func (p Pool) why() string {
	return cmp.Or(p.Pool.Payload.Status.Why, "it has as much as its pods need")
}
