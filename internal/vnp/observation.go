package vnp

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// State is what a planner knows of a provider of the pool.
type State string

// States of a provider.
const (
	Asked    State = "Asked"    // its virtual node is not Ready yet
	Ready    State = "Ready"    // its virtual node is Ready
	NotReady State = "NotReady" // its virtual node was Ready, and is not
	Dead     State = "Dead"     // its virtual node is NotReady for long: it is replaced
	Leaving  State = "Leaving"  // it is alive and goes: nothing new is planned there
)

// Provider is a provider of the pool.
type Provider struct {
	Name, Node string
	State      State
	// Since is when the state began.
	Since time.Time
	// Reserved is the size of the reservation, Wish the lower one to which it is about to shrink;
	// nil: it does not shrink.
	Reserved, Wish amounts.List
	// Changing says that a change of the reservation, or another reservation beside it, waits for its answer.
	Changing bool
	// Ends says that the reservation cannot be extended: its contract does not allow it, or it was refused.
	Ends bool
	// Cost is that of an hour, in billionths of the unit of maxPrice's currency.
	Cost int64
	// Created and Until are when the reservation was made, and when it ends.
	Created, Until time.Time
	// Labels are those of the virtual node. Nil: it has none yet.
	Labels map[string]string
	// Lowered says that the virtual node has the size of Wish.
	Lowered bool
	// Used is what all pods on the virtual node request, also those of namespaces that are not the pool's:
	// a hub's customers run there. Nil: only the pool's namespaces have pods there.
	Used amounts.List
	// Claims are the bound claims whose volumes are there.
	Claims []string
	// Drifted says that the template was edited since. Unmet says that the broker found that the provider
	// does not meet the template, at the extension.
	Drifted, Unmet bool
	// Capped says why the broker gives this cluster no more. Empty: it does.
	Capped string
	// Paused says that it refused a smaller size lately: it is asked for none for a while.
	Paused bool
	// Disabled says that this cluster chose other providers at the broker, by /api/toggle.
	Disabled bool
	// GivenUp says that an admin gave up these volumes.
	GivenUp bool
}

// Observation is what a plan is made from.
type Observation struct {
	Now       time.Time
	Pods      []*corev1.Pod // of the pool's namespaces, and all on its virtual nodes
	Providers []Provider
	// Node is a virtual node as any new provider would have it.
	Node *corev1.Node
	// Refuses returns why providers would refuse a pod, empty if they accept it. Nil: they accept all.
	Refuses func(*corev1.Pod) string
	// Volumes are the nodes of the bound claims, by NAMESPACE/NAME.
	Volumes map[string]string
	// Avoid are providers that cannot serve the pool now.
	Avoid []string
	// Reached says that a broker answers.
	Reached bool
	// DeadAfter is how long a virtual node may be NotReady before its provider is dead. Default 3 min.
	DeadAfter time.Duration
	// Nodes are the nodes that exist, of those for which pods are nominated.
	Nodes map[string]bool
	// Answer returns what the broker answers to an Ask. Nil: the broker is not asked.
	Answer func(Ask) Answer
}

// Verb is what a step does with a provider.
type Verb string

// What a step does.
const (
	Create  Verb = "Create"  // reserve Size there
	Resize  Verb = "Resize"  // reserve Size there instead
	Lower   Verb = "Lower"   // wish for Size, and see that what runs fits
	Restore Verb = "Restore" // wish for what is reserved again
	Extend  Verb = "Extend"  // reserve until Until
	Renew   Verb = "Renew"   // reserve Size there again; the present reservation ends once that is bound
	Release Verb = "Release" // empty the virtual node in order, and end the reservation
	// Clear deletes Pods at once, because nobody will confirm that they ended. Without Pods, it ends the reservation.
	Clear Verb = "Clear"
)

// Step is one thing to do.
type Step struct {
	Verb     Verb
	Provider string
	Size     amounts.List
	Until    time.Time
	// MaxPrice is the most that the reservation may cost. Nil: it must be free.
	MaxPrice *api.Price
	// Pods are those to delete.
	Pods []*corev1.Pod
}

// Ask is what to ask the broker: how much of a size fits where.
type Ask struct {
	Size amounts.List
	Pods []Shape // at most 8
	// MaxPrice is the most that all of it may cost. Nil: it must be free.
	MaxPrice *api.Price
	// Without are clusters that an answer to this ask named, and that do not help.
	Without []string
}

// Answer is a broker's answer to an Ask.
type Answer struct {
	// Fits says what fits where. Nil: the broker did not answer.
	Fits *api.Fits
	// Named are the clusters that the broker named, More says that there are others.
	Named []string
	More  bool
	// TooFar says that Fits lacks clusters that are farther than maxLatency.
	TooFar bool
	// Architectures are those of clusters in Fits that have one, by cluster.
	Architectures map[string]string
	// Why says why there is no answer, or what came closest. It may be empty.
	Why string
}

// Plan says what to do next, and why not more.
type Plan struct {
	Steps []Step
	// Evict are pods that never ran where they are bound, and would run elsewhere.
	Evict []*corev1.Pod
	// Asks are what the broker was asked for this plan, in order.
	Asks []Ask
	// Demand is what the pods that count request, and min. Used is what pods request by node.
	Demand, Reserved amounts.List
	Used             map[string]amounts.List
	// Providers are those of the observation, by name, with the states Dead and Leaving.
	Providers []Provider
	// Counted is the number of Pending pods that count, Not are the others. A pod that is bound, and that its
	// provider does not run, is Pending, too.
	Counted int
	Not     []api.UncountedPods
	// Limited is the reason for which demand is not met, empty if it is, or while the pool grows: the next plan says
	// what growth leaves.
	Limited, Message string
	// AllNotReady: this cluster is probably cut off, so nothing is replaced and nothing grows.
	AllNotReady bool
	// NotExtended says of each provider whose reservation should have been extended how much of its time
	// is left. VolumesKeep are those that stay because of their volumes.
	NotExtended, VolumesKeep []string
	// Drifted are providers that no longer meet the template, or whose template was edited since.
	Drifted []string
	// Again is when to plan again even if nothing changes. Zero: never.
	Again time.Time
}
