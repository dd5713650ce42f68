package borrowing

import (
	"context"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
)

// reflect returns what of its namespaces a loan allows to be copied.
func (l bound) reflect() api.Reflect {
	if o := l.offload(); o != nil && o.Reflect != nil {
		return *o.Reflect
	}
	return api.Reflect{}
}

// reflectionFor returns what a new virtual node with a provider may copy: what all loans there allow, and no more
// than is copied already.
func (b *Borrowing) reflectionFor(provider string, all []bound) api.Reflect {
	var wishes []api.Reflect
	for _, l := range all {
		if l.Provider == provider {
			wishes = append(wishes, l.reflect())
		}
	}
	return b.state(provider).reflection.Laxest(offload.Strictest(wishes))
}

// protect returns those of the namespaces that can be mapped at a provider without that more of them is copied than
// the loans there allow, and remembers the others. What is mapped already stays: its condition Reflected says what
// is copied.
func (b *Borrowing) protect(ctx context.Context, provider string, all []bound, wanted []string) ([]string, error) {
	s := b.state(provider)
	var err error
	if s.reflection, err = b.namespaces.Reflection(ctx, b.options.Client, provider); err != nil {
		return nil, err
	}
	mapped, err := b.namespaces.Mapped(ctx, provider)
	if err != nil {
		return nil, err
	}
	fresh := slices.DeleteFunc(slices.Clone(wanted), func(name string) bool { return slices.Contains(mapped, name) })
	if s.exposed = nil; len(fresh) == 0 {
		return wanted, nil
	}
	// A virtual node that the cache lacks could copy more.
	if s.reflection, err = b.namespaces.Reflection(ctx, b.options.Reader, provider); err != nil {
		return nil, err
	}
	s.exposed = map[string]error{}
	for _, l := range all {
		o := l.offload()
		if o == nil || l.Provider != provider {
			continue
		}
		for _, name := range o.Namespaces {
			if !slices.Contains(fresh, name) || b.checkAllowed(ctx, name, l) != nil {
				continue
			}
			if err := s.reflection.Admits(provider, name, l.reflect()); err != nil {
				s.exposed[name] = err
			}
		}
	}
	return slices.DeleteFunc(wanted, func(name string) bool { return s.exposed[name] != nil }), nil
}

// showExposed shows for a loan which of its namespaces are not mapped, because too much of them would be copied. It
// returns what it waits for, empty if there are none.
func (b *Borrowing) showExposed(ctx context.Context, l bound, namespaces []string) (waits string, err error) {
	exposed := b.state(l.Provider).exposed
	for _, name := range slices.Sorted(maps.Keys(exposed)) {
		if slices.Contains(namespaces, name) {
			why := api.WithoutCode(exposed[name].Error())
			return why, b.showCondition(ctx, []bound{l}, offloadPart,
				condition(api.ConditionOffloaded, false, api.ReflectsMore, why))
		}
	}
	return "", nil
}

// checkReflection returns why a provider cannot be used for namespaces: more of them would be copied than the
// request allows, or less than a VirtualNodePool says, whose pods may not start then. mapped are those that are mapped
// there already. Errors: InUse.
func (b *Borrowing) checkReflection(ctx context.Context, provider string, asks bound, mapped []string) error {
	fresh := slices.DeleteFunc(slices.Clone(asks.namespaces()),
		func(name string) bool { return slices.Contains(mapped, name) })
	if len(fresh) == 0 {
		return nil
	}
	reflection, err := b.namespaces.Reflection(ctx, b.options.Reader, provider)
	if err != nil {
		return err
	}
	if asks.pool != nil && !reflection.Covers(asks.reflect()) {
		copied := reflection.Describe(provider, reflection.Reflect)
		return api.Errorf(api.CodeInUse, "%s; VirtualNodePool %s needs more", copied, asks.pool.Name).
			Fix("end the requests at %s that are stricter, or set offload.reflect of the pool", provider)
	}
	return reflection.Admits(provider, strings.Join(fresh, ", "), asks.reflect())
}

// reflectedCondition says what is copied to the provider of a loan, by the options of the virtual nodes there:
// fails are the objects that Liqo cannot copy, leftOut those that it does not copy.
func reflectedCondition(reflection offload.Reflection, l bound, fails, leftOut []string) metav1.Condition {
	message := reflection.Describe(l.Provider, l.reflect())
	if len(leftOut) > 0 {
		message += "; so these stay: " + firstFew(leftOut)
	}
	refused := offload.OverQuota(fails)
	switch {
	case len(refused) > 0:
		return condition(api.ConditionReflected, false, api.QuotaUsedUp, "Liqo's quota at "+l.Provider+" refuses pods. "+
			"Pods that have ended hold it until they are deleted (of Jobs: ttlSecondsAfterFinished): "+
			firstFew(refused)+"; "+message)
	case len(fails) > 0:
		return condition(api.ConditionReflected, false, "FailedReflection", firstFew(fails)+"; "+message)
	case !reflection.AtLeastAsStrict(l.reflect()):
		return condition(api.ConditionReflected, false, api.ReflectsMore, message)
	}
	return condition(api.ConditionReflected, true, "Reflected", message)
}
