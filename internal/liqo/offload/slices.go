// Package offload manages the consumer's objects of a reservation in Liqo: a ResourceSlice for each
// account, its virtual node, and the namespaces whose pods may run there.
package offload

import (
	"context"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
)

// Slices manages this cluster's ResourceSlices: one, and so one virtual node, for each account.
type Slices struct {
	client.Client
	// Reader reads from the API server; LiqoNamespace is the namespace of Liqo.
	Reader        client.Reader
	LiqoNamespace string
	// Guarded returns an error if the admission policies are missing. Without them, a provider may
	// have one virtual node at most.
	Guarded func(ctx context.Context) error
}

// SliceState is what the provider grants of a slice, and whether its node is Ready.
type SliceState struct {
	// Granted: the provider grants at least the requested resources. Ready: also, the virtual node is Ready.
	Granted, Ready bool
	// Resources are the resources that the provider grants, at most those that are asked for.
	Resources api.Resources
	// Serves are those of Resources that the virtual node has while it is Ready. Nil: it has none.
	Serves api.Resources
	// LeftOut are the labels that the provider sends for the virtual node and may not choose, sorted.
	LeftOut []string
	// Message names the step that is awaited, in Liqo's words if it gives any.
	Message string
	// Held is the reason for which the provider grants nothing more (package grant); Why is its
	// message. Empty: the provider grants.
	Held, Why string

	accepted bool // the provider grants something, or has granted it
}

// Node says how a virtual node is made.
type Node struct {
	// Reflect says what of the namespaces goes to the provider.
	Reflect api.Reflect
	// Namespaces are those whose pods may run there from the start.
	Namespaces []string
	// ProviderPool is the provider's pool.
	ProviderPool string
	// Pool is the VirtualNodePool; empty: none. Burst says that pods go to other nodes first.
	Pool  string
	Burst bool
	// Hub says that customers' pods run there. They learn neither the provider's Events nor addresses.
	Hub bool
	// NoIP says that the addresses of pods there are not reflected: without a network, nothing here can
	// reach them, and a Service would lose the requests that it sends there. It counts for a node that runs, too.
	NoIP bool

	byLiqo bool // Liqo's creator writes its labels
}

// Ensure makes or updates the slice of an account for the reserved resources, and its virtual node.
func (s *Slices) Ensure(ctx context.Context, provider, name string, want api.Resources, node Node) (SliceState, error) {
	namespace, err := liqo.TenantNamespace(ctx, s.Client, provider)
	if err != nil || namespace == "" {
		return SliceState{Message: "there is no peering"}, err
	}
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	err = s.Get(ctx, client.ObjectKeyFromObject(slice), slice)
	switch {
	case apierrors.IsNotFound(err):
		err = client.IgnoreAlreadyExists(s.Create(ctx, NewSlice(namespace, provider, name, want))) // our cache may lag
		if err == nil {
			_, err = s.options(ctx, node) // made now: the virtual node only reads it
		}
		return SliceState{Message: "the slice was made"}, err
	case err != nil:
		return SliceState{}, err
	case slice.DeletionTimestamp != nil:
		return SliceState{Message: "the slice of an earlier reservation is being removed"}, nil
	}
	_, node.byLiqo = slice.Annotations[consts.CreateVirtualNodeAnnotation]
	if err := kubeobject.Change(ctx, s.Client, slice, func() {
		slice.Spec.Resources, slice.Spec.Class = grant.Wish(want), liqo.Class
		// Former releases left the VirtualNode to Liqo's creator, by this annotation. It would make one that is gone
		// again, with Liqo's options.
		delete(slice.Annotations, consts.CreateVirtualNodeAnnotation)
	}); err != nil {
		return SliceState{}, err
	}
	out, err := s.state(ctx, slice, want)
	if err != nil || !out.accepted {
		return out, err
	}
	_, out.LeftOut = nodeLabels(slice.Status.NodeLabels, provider, node)
	return out, s.keepNode(ctx, slice, provider, want, node, out.Granted)
}

// NewSlice returns the slice of an account.
func NewSlice(namespace, provider, name string, want api.Resources) *authv1beta1.ResourceSlice {
	id := liqov1beta1.ClusterID(provider)
	return &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels: liqo.Labels(provider,
				consts.ReplicationRequestedLabel, consts.ReplicationRequestedLabelValue,
				consts.ReplicationDestinationLabel, provider),
		},
		Spec: authv1beta1.ResourceSliceSpec{Class: liqo.Class, ProviderClusterID: &id, Resources: grant.Wish(want)},
	}
}

func (s *Slices) state(
	ctx context.Context, slice *authv1beta1.ResourceSlice, want api.Resources,
) (SliceState, error) {
	out := SliceState{Resources: api.Resources(grant.AtMost(slice.Status.Resources, want))}
	for _, c := range slice.Status.Conditions {
		if c.Type == authv1beta1.ResourceSliceConditionTypeResources {
			out.accepted = c.Status == authv1beta1.ResourceSliceConditionAccepted
			out.Granted = out.accepted && covers(slice.Status.Resources, want)
			out.Message = c.Message
			if c.Reason == grant.ReasonSuspended || c.Reason == grant.ReasonCordoned {
				out.Held, out.Why = c.Reason, c.Message
			}
		}
	}
	if out.Message == "" {
		out.Message = "the provider's Liqo has not answered yet"
	}
	var node corev1.Node
	if err := s.Get(ctx, client.ObjectKey{Name: slice.Name}, &node); err != nil {
		return out, client.IgnoreNotFound(err)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			isReady := c.Status == corev1.ConditionTrue
			out.Ready = out.Granted && isReady && covers(node.Status.Allocatable, want)
			if out.accepted && isReady {
				out.Serves = lesser(out.Resources, node.Status.Allocatable)
			}
			switch {
			case !isReady:
				out.Message = "the virtual node is not Ready: " + whyNotReady(c)
			case !out.Ready && out.Granted:
				out.Message = "the virtual node does not have all of the reserved amounts yet"
			}
		}
	}
	return out, nil
}

// whyNotReady says why a virtual node is not Ready. The message of its condition may still be that of the status
// before, in which the kubelet was ready.
func whyNotReady(c corev1.NodeCondition) string {
	switch {
	case c.Status == corev1.ConditionUnknown && !c.LastHeartbeatTime.IsZero():
		return "its virtual kubelet has reported nothing since " + c.LastHeartbeatTime.UTC().Format(time.RFC3339)
	case c.Status == corev1.ConditionUnknown:
		return "its virtual kubelet has not reported yet"
	case c.Reason == liqoReady || c.Message == "":
		return "its condition Ready is " + string(c.Status)
	}
	return c.Message
}

// liqoReady is the reason with which Liqo's virtual kubelet says that it is ready.
const liqoReady = "KubeletReady"

// lesser returns the amounts that are in both.
func lesser(a api.Resources, b corev1.ResourceList) api.Resources {
	out := api.Resources{}
	for name, amount := range a {
		if out[name] = amount; amount.Cmp(b[name]) > 0 {
			out[name] = b[name]
		}
	}
	return out
}

func covers(have corev1.ResourceList, want api.Resources) bool {
	for name, amount := range want {
		if got := have[name]; got.Cmp(amount) < 0 {
			return false
		}
	}
	return true
}

// Remove deletes a slice, and so its virtual node; gone reports that nothing of it is left. Liqo
// drains the node first.
func (s *Slices) Remove(ctx context.Context, provider, name string) (gone bool, err error) {
	namespace, err := liqo.TenantNamespace(ctx, s.Client, provider)
	if err != nil || namespace == "" {
		return err == nil, err
	}
	slice := &authv1beta1.ResourceSlice{}
	node, virtual := &corev1.Node{}, &offv1beta1.VirtualNode{}
	key := client.ObjectKey{Namespace: namespace, Name: name}
	haveSlice, err := s.have(ctx, key, slice)
	if err != nil {
		return false, err
	}
	haveVirtual, err := s.have(ctx, key, virtual)
	if err != nil {
		return false, err
	}
	haveNode, err := s.have(ctx, client.ObjectKey{Name: name}, node)
	if err != nil {
		return false, err
	}
	if haveSlice && liqo.IsOurs(slice) {
		if err := s.keep(ctx, namespace, name, true); err != nil {
			return false, err
		}
	}
	// Liqo's controller panics if a VirtualNode is deleted before its Node exists.
	if haveSlice && liqo.IsOurs(slice) && slice.DeletionTimestamp == nil && (haveNode || !haveVirtual) {
		return false, client.IgnoreNotFound(s.Delete(ctx, slice))
	}
	return !haveSlice && !haveVirtual && !haveNode, nil
}

func (s *Slices) have(ctx context.Context, key client.ObjectKey, o client.Object) (bool, error) {
	err := s.Get(ctx, key, o)
	return err == nil, client.IgnoreNotFound(err)
}

// Names lists the slices that we made with a provider.
func (s *Slices) Names(ctx context.Context, provider string) ([]string, error) {
	namespace, err := liqo.TenantNamespace(ctx, s.Client, provider)
	if err != nil || namespace == "" {
		return nil, err
	}
	var list authv1beta1.ResourceSliceList
	err = s.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels(liqo.Managed()),
		client.MatchingLabels{consts.ReplicationRequestedLabel: consts.ReplicationRequestedLabelValue})
	var names []string
	for _, slice := range list.Items {
		names = append(names, slice.Name)
	}
	return names, err
}
