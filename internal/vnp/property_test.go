package vnp

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
)

// After any events, the bounds hold, and nothing is reserved without a broker. An undisturbed pool serves every pod,
// or says why not.
func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := spec(rapid.Int64Range(4, 60).Draw(t, "max"))
		s.Providers.AtMost = rapid.Int32Range(1, 4).Draw(t, "at most")
		s.Providers.Spread = rapid.Int32Range(1, 3).Draw(t, "spread")
		budget := fmt.Sprint(rapid.IntRange(0, 20).Draw(t, "budget"))
		s.MaxPrice = &api.Price{Amount: budget, Currency: "EUR", Period: api.PeriodHour}
		w := newWorld(t, s, map[string]int64{})
		for _, name := range []string{"bern", "milan", "oslo", "rome"} {
			w.capacity[name] = rapid.Int64Range(0, 40).Draw(t, name)
			w.price[name] = rapid.SampledFrom([]int64{0, 500_000_000, 1_000_000_000}).Draw(t, "price")
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				w.fail = t.Fatalf
				w.step(time.Duration(rapid.IntRange(1, 900).Draw(t, "seconds")) * time.Second)
			},
			"pods": func(t *rapid.T) {
				for range rapid.IntRange(1, 10).Draw(t, "n") {
					w.made++
					name := fmt.Sprintf("p-%d", w.made)
					w.stubborn[name] = rapid.IntRange(0, 9).Draw(t, "stubborn") == 0
					w.Pods = append(w.Pods, pending(name, rapid.Int64Range(1, 5).Draw(t, "cpu"), func(p *corev1.Pod) {
						p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.Now)
					}))
				}
			},
			"fewer pods": func(t *rapid.T) {
				w.Pods = slices.DeleteFunc(w.Pods, func(*corev1.Pod) bool { return rapid.Bool().Draw(t, "goes") })
			},
			"broker": func(t *rapid.T) { w.Reached = !w.Reached },
			"contract": func(t *rapid.T) {
				if len(w.Providers) > 0 {
					w.Providers[rapid.IntRange(0, len(w.Providers)-1).Draw(t, "whose")].Ends = true
				}
			},
			"exclude": func(t *rapid.T) {
				s.Providers.Exclude = rapid.SampledFrom([][]string{nil, {"milan"}, {"bern", "oslo"}}).Draw(t, "out")
			},
			"volume": func(t *rapid.T) {
				if len(w.Providers) > 0 {
					provider := &w.Providers[rapid.IntRange(0, len(w.Providers)-1).Draw(t, "where")]
					provider.Claims = rapid.SampledFrom([][]string{nil, {"team/data"}}).Draw(t, "claims")
				}
			},
			"node": func(t *rapid.T) {
				if len(w.Providers) > 0 {
					provider := &w.Providers[rapid.IntRange(0, len(w.Providers)-1).Draw(t, "which")]
					if provider.State == Ready {
						provider.State, provider.Since = NotReady, w.Now
					} else if provider.State == NotReady {
						provider.State, provider.Since = Ready, w.Now
					}
				}
			},
		})
		w.Reached, s.Providers.Exclude = true, nil
		for i := range w.Providers {
			w.Providers[i].State, w.Providers[i].Claims = Ready, nil
		}
		plan := w.settle()
		waits := slices.ContainsFunc(w.Pods, func(p *corev1.Pod) bool {
			return p.Spec.NodeName == "" && !w.stubborn[p.Name] && w.part(p)
		})
		if waits && plan.Limited == "" {
			t.Fatalf("%d pods count, and nothing is done: %q", plan.Counted, steps(plan))
		}
	})
}

// A pod that growth does not help causes growth again more and more rarely: what keeps it may have passed.
func TestAStubbornPodCausesLittleGrowth(t *testing.T) {
	w := newWorld(t, spec(100), map[string]int64{"milan": 50, "oslo": 50})
	w.Pods, w.stubborn = several(3, 2), map[string]bool{"p-00-2": true, "p-01-2": true, "p-02-2": true}
	for range 24 * 60 {
		w.step(time.Minute)
	}
	if w.grown < 2 || w.grown > 7 || len(w.Providers) != 0 {
		t.Errorf("it grew %d times, and has %d providers", w.grown, len(w.Providers))
	}
}

// Demand that comes and goes each second changes no reservation more than six times a minute.
func TestDemandThatOscillates(t *testing.T) {
	s := spec(1000)
	s.PendingFor, s.ScaleDownAfter = &metav1.Duration{Duration: time.Second}, &metav1.Duration{Duration: time.Second}
	w := newWorld(t, s, map[string]int64{"milan": 500, "oslo": 500})
	for range 10 {
		w.changes = 0
		for second := range 60 {
			if w.Pods = nil; second%2 == 0 {
				w.Pods = several(40, 2)
			}
			w.step(time.Second)
		}
		if w.changes > 6 {
			t.Fatalf("%d changes in a minute", w.changes)
		}
	}
}

// A budget for some of the pods serves some of them.
func TestABudgetForSome(t *testing.T) {
	s := spec(100)
	s.MaxPrice = &api.Price{Amount: "30", Currency: "EUR", Period: api.PeriodHour}
	w := newWorld(t, s, map[string]int64{"milan": 90})
	w.price["milan"], w.Pods = 1_000_000_000, several(80, 1)
	var plan *Plan
	for range 30 {
		plan = w.step(time.Minute)
	}
	if plan.Reserved.Of("cpu") != 30_000 || plan.Limited != LimitedByMaxPrice {
		t.Errorf("%v is reserved, limited %q", plan.Reserved, plan.Limited)
	}
}

// Away from the broker for eleven hours at any time, all that runs stays.
func TestTheBrokerIsAwayForHours(t *testing.T) {
	for begins := 0; begins < 24; begins += 3 {
		w := newWorld(t, spec(100), map[string]int64{"milan": 50})
		w.Pods = several(20, 2)
		for minute := 0; minute < 48*60; minute += 5 {
			w.Reached = minute < begins*60+10 || minute > begins*60+10+11*60
			w.step(5 * time.Minute)
			if minute > 5 && (w.changes != 1 || len(w.Providers) != 1) {
				t.Fatalf("away from hour %d: %d changes, %d providers", begins, w.changes, len(w.Providers))
			}
		}
	}
}

// Once no virtual node is Ready, all stays as it was, for as long as that lasts: with a broker because all of them
// would hardly be dead at once, without one because this cluster may be cut off.
func TestAllNodesNotReady(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := spec(60)
		s.Providers.Spread = 3 // no single provider
		w := newWorld(t, s, map[string]int64{"milan": 40, "oslo": 40, "rome": 40})
		w.Pods = several(rapid.IntRange(11, 30).Draw(t, "pods"), 2)
		for range rapid.IntRange(4, 10).Draw(t, "minutes") {
			w.step(time.Minute)
		}
		had := len(w.Providers)
		if had < 2 {
			t.Fatalf("it has %d providers", had)
		}
		for i := range w.Providers {
			w.Providers[i].State, w.Providers[i].Since = NotReady, w.Now
		}
		w.Reached, w.changes = rapid.Bool().Draw(t, "broker"), 0
		for range rapid.IntRange(1, 22).Draw(t, "half hours") {
			w.step(30 * time.Minute)
			if rapid.IntRange(0, 9).Draw(t, "more") == 0 {
				w.made++
				w.Pods = append(w.Pods, pending(fmt.Sprint("more-", w.made), 2))
			}
		}
		if w.changes > 0 || len(w.Providers) != had {
			t.Fatalf("%d changes; %d providers of %d are left", w.changes, len(w.Providers), had)
		}
	})
}

// Each namespace is in one pool, and each pod counts there alone. A younger pool takes nothing from an
// older one, and the order in which they are read changes nothing.
func TestEachPodCountsInOnePool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d"}
		var pools []api.VirtualNodePool
		for i := range rapid.IntRange(1, 5).Draw(t, "pools") {
			one := api.VirtualNodePool{Spec: *spec(1000)}
			one.Name = fmt.Sprint("pool-", i)
			one.CreationTimestamp = metav1.NewTime(noon.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "made")) * time.Hour))
			one.Spec.Namespaces = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 4, rapid.ID[string]).Draw(t, "names")
			pools = append(pools, one)
		}
		owners := Owners(pools)
		if again := Owners(rapid.Permutation(pools).Draw(t, "order")); !maps.Equal(again, owners) {
			t.Fatalf("%v, and in another order %v", owners, again)
		}
		young := pools[0]
		young.Name, young.CreationTimestamp, young.Spec.Namespaces = "young", metav1.NewTime(noon.Add(3*time.Hour)), names
		for namespace, owner := range Owners(append(slices.Clone(pools), young)) {
			if was := owners[namespace]; was != "" && was != owner {
				t.Fatalf("%s goes from %s to %s", namespace, was, owner)
			}
		}
		counted, wanted := 0, 0
		for i := range pools {
			var pods []*corev1.Pod
			for namespace, owner := range owners {
				if owner == pools[i].Name {
					wanted++
					pods = append(pods, pending(namespace, 1, func(p *corev1.Pod) { p.Namespace = namespace }))
					if !slices.Contains(pools[i].Spec.Namespaces, namespace) {
						t.Fatalf("%s has %s, and does not name it", owner, namespace)
					}
				}
			}
			counted += planner(t, &pools[i].Spec).Plan(seen(pods)).Counted
		}
		named := map[string]bool{}
		for i := range pools {
			for _, namespace := range pools[i].Spec.Namespaces {
				named[namespace] = true
			}
		}
		if counted != len(named) || wanted != len(named) {
			t.Fatalf("of the pods of %d namespaces, %d count; owners %v", len(named), counted, owners)
		}
	})
}
