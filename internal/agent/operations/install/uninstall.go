package install

import (
	"context"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/quantities"
)

// Removal says how Bourse leaves a cluster.
type Removal struct {
	// Namespace is the agent's, LiqoNamespace that of Liqo.
	Namespace, LiqoNamespace string
	// KeepPeerings leaves Liqo's objects, as if they had been made by hand.
	KeepPeerings bool
	// Tell receives the text of each step before it is done. DryRun does none.
	Tell   func(step string)
	DryRun bool
	// Purge also removes what Helm or Argo CD installed and left behind. Without it these objects stay, and the
	// namespace with what was agreed.
	Purge bool
	// Wait waits until the agent has closed the peerings that nothing uses.
	Wait bool
}

// formerPlaceholders is the namespace in which earlier versions made placeholder pods.
const formerPlaceholders = "bourse-placeholders"

// Uninstall removes Bourse from a cluster with the rights of its admin. The agent goes first, so that
// nothing comes back. Uninstall can be repeated. Errors: Conflict while there are peerings that are
// neither kept nor ended yet, or a release of Helm that would bring everything back.
func Uninstall(ctx context.Context, config *rest.Config, r Removal) error {
	c, err := client.New(new(quantities.Checked).Wrap(config), client.Options{Scheme: scheme.New()})
	if err != nil {
		return api.Errorf(api.CodeUnavailable, "the cluster does not answer: %s", err).
			Fix("see whether kubectl works with this kubeconfig")
	}
	u := &removal{Removal: r, c: c}
	if err := u.checkReleases(ctx); err != nil {
		return err
	}
	switch err := u.checkPeerings(ctx); {
	case err == nil:
	case r.DryRun:
		u.Tell("not yet: " + err.Error())
	case !r.Wait || api.CodeOf(err) != api.CodeConflict:
		return err
	default:
		u.Tell("waiting: " + err.Error())
		if err = u.awaitPeerings(ctx); err != nil {
			return err
		}
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: "bourse-agent"}}
	if err := u.remove(ctx, deployment); err != nil {
		return err
	}
	if err := u.removeLabels(ctx); err != nil {
		return err
	}
	isNamed := func(name string) bool { return strings.HasPrefix(name, "bourse-") }
	for _, list := range []client.ObjectList{
		&admissionv1.ValidatingAdmissionPolicyBindingList{}, &admissionv1.ValidatingAdmissionPolicyList{},
		&rbacv1.ClusterRoleBindingList{}, &rbacv1.ClusterRoleList{}, &schedulingv1.PriorityClassList{},
	} {
		if err := u.removeAll(ctx, list, isNamed); err != nil {
			return err
		}
	}
	for _, name := range []string{"bourse-agent", "bourse-agent-liqo-consumer"} {
		meta := metav1.ObjectMeta{Namespace: r.LiqoNamespace, Name: name}
		if err := u.remove(ctx, &rbacv1.RoleBinding{ObjectMeta: meta}); err != nil {
			return err
		}
		if err := u.remove(ctx, &rbacv1.Role{ObjectMeta: meta}); err != nil {
			return err
		}
	}
	if err := u.removeFinalizers(ctx); err != nil {
		return err
	}
	if err := u.removeKinds(ctx); err != nil {
		return err
	}
	if u.kept > 0 {
		u.Tell(fmt.Sprintf("keep %d objects that Helm or Argo CD installed, and namespace %s: to remove them, add --purge",
			u.kept, r.Namespace))
		return nil
	}
	if err := u.removeRecord(ctx); err != nil {
		return err
	}
	if err := u.letNamespaceGo(ctx); err != nil {
		return err
	}
	for _, name := range []string{formerPlaceholders, r.Namespace} {
		if err := u.remove(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	return nil
}

// removeRecord removes the record of the agent whose key and Ledger go, where a broker keeps the kinds: the next agent is
// no replacement. That of an agent in another namespace stays.
func (u *removal) removeRecord(ctx context.Context) error {
	record := &api.Agent{ObjectMeta: metav1.ObjectMeta{Name: api.AgentName}}
	if err := u.c.Get(ctx, client.ObjectKeyFromObject(record), record); unknown(err) || err == nil && record.Status.Namespace != u.Namespace {
		return nil
	} else if err != nil {
		return err
	}
	return u.remove(ctx, record)
}

// letNamespaceGo marks the agent's namespace: an API server may apply the policy that guards it a moment longer.
func (u *removal) letNamespaceGo(ctx context.Context) error {
	if u.DryRun {
		return nil
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, api.MayDieAnnotation)
	return client.IgnoreNotFound(u.c.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: u.Namespace}},
		client.RawPatch(types.MergePatchType, []byte(patch))))
}

type removal struct {
	Removal
	c client.Client
	// broker is whether a broker's objects are in the same cluster.
	broker bool
	// kept counts the objects of Helm or Argo CD that stay.
	kept int
}

// checkReleases refuses while Helm has the agent's release or, to purge, that of what the agent leaves.
func (u *removal) checkReleases(ctx context.Context) error {
	agent := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: u.Namespace, Name: "bourse-agent"}}
	objects := []client.Object{agent}
	if u.Purge {
		objects = append(objects, &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "bourse-guard"}})
	}
	for _, o := range objects {
		if err := u.c.Get(ctx, client.ObjectKeyFromObject(o), o); unknown(err) {
			continue
		} else if err != nil {
			return err
		}
		release, in := o.GetAnnotations()[helmRelease], o.GetAnnotations()[helmNamespace]
		if release == "" {
			continue
		}
		var secrets corev1.SecretList
		err := u.c.List(ctx, &secrets, client.InNamespace(in), client.MatchingLabels{"owner": "helm", "name": release})
		if err != nil {
			return err
		}
		if o == agent || len(secrets.Items) > 0 {
			return api.Errorf(api.CodeConflict, "Helm installed %s, as release %s", o.GetName(), release).
				Fix("end that first: helm uninstall %s -n %s", release, in)
		}
	}
	return nil
}

// ofBroker reports whether a cluster-wide object is a broker's: config/kubernetes and config/catalog name
// theirs so.
func ofBroker(name string) bool {
	return strings.HasPrefix(name, "bourse-broker") || strings.HasPrefix(name, "bourse-member")
}

// awaitPeerings waits until no peering is left. Errors: the last one of checkPeerings, when ctx ends.
func (u *removal) awaitPeerings(ctx context.Context) (err error) {
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		err = u.checkPeerings(ctx)
		return err == nil, nil
	})
	return err
}

// checkPeerings refuses to leave half of a peering behind.
func (u *removal) checkPeerings(ctx context.Context) error {
	var list api.PeeringList
	err := u.c.List(ctx, &list, client.InNamespace(u.Namespace))
	if unknown(err) || err == nil && len(list.Items) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	first, err := u.withoutAgent(ctx)
	if err != nil {
		return err
	}
	var lingering, others []string
	for _, p := range list.Items {
		if u.KeepPeerings && p.Spec.Role == api.RoleConsumer {
			return api.Errorf(api.CodeConflict,
				"cluster %s borrows here: without the policies it could do everything that Liqo allows", p.Spec.Cluster).
				Fix("%send that first: bourse evict %s", first, p.Spec.Cluster)
		}
		if p.Status.State == api.PeeringLingering && p.Status.Since != nil {
			lingering = append(lingering, fmt.Sprintf("%s (unused since %s)",
				p.Name, p.Status.Since.UTC().Format(time.TimeOnly)))
		} else {
			others = append(others, p.Name)
		}
	}
	if u.KeepPeerings {
		return nil
	}
	open := api.Errorf(api.CodeConflict, "peerings remain: %s", strings.Join(append(others, lingering...), ", "))
	if len(others) > 0 {
		return open.Fix("%send their reservations (bourse release, bourse evict), or keep them: --keep-peerings", first)
	}
	return open.Fix("%snothing uses them: the agent closes them by itself, --peering-linger after that (10m by default); "+
		"wait for it: --wait; or keep them: --keep-peerings", first)
}

// withoutAgent returns what to do before all else where the agent is gone, as after helm uninstall: only an agent ends
// reservations and closes peerings. It returns nothing where one runs.
func (u *removal) withoutAgent(ctx context.Context) (string, error) {
	err := u.c.Get(ctx, client.ObjectKey{Namespace: u.Namespace, Name: "bourse-agent"}, &appsv1.Deployment{})
	if !unknown(err) {
		return "", err
	}
	return "no Deployment bourse-agent is in namespace " + u.Namespace + ": unless the agent runs elsewhere, install it again first, " +
		"since only an agent closes peerings (helm install bourse-agent charts/bourse-agent -n " + u.Namespace + " ...); then ", nil
}

// unknown reports whether an error says that the cluster lacks the kind of a list. While a kind is being
// deleted, the API server still names it, and answers NotFound.
func unknown(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// remove deletes an object, if it exists.
func (u *removal) remove(ctx context.Context, o client.Object) error {
	if err := u.c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		if meta.IsNoMatchError(err) {
			return nil
		}
		return client.IgnoreNotFound(err)
	}
	notes := o.GetAnnotations()
	if !u.Purge && (notes[helmRelease] != "" || notes[argoTracking] != "") {
		u.kept++
		return nil
	}
	if !u.announce("delete", o) {
		return nil
	}
	return client.IgnoreNotFound(u.c.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// announce tells of a step, and reports whether to do it.
func (u *removal) announce(what string, o client.Object) bool {
	kind, _ := u.c.GroupVersionKindFor(o)
	u.Tell(strings.TrimSpace(what + " " + kind.Kind + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")))
	return !u.DryRun
}

// removeAll deletes the cluster-wide objects of a list that have our names, but not those of a broker
// in the same cluster.
func (u *removal) removeAll(
	ctx context.Context, list client.ObjectList, isOurs func(name string) bool,
) error {
	if err := u.c.List(ctx, list); unknown(err) {
		return nil
	} else if err != nil {
		return err
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	for _, o := range objects {
		o := o.(client.Object)
		if ofBroker(o.GetName()) {
			u.broker = true
		} else if isOurs(o.GetName()) {
			if err := u.remove(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeLabels takes Bourse's labels off Liqo's objects. What stays is plain Liqo.
func (u *removal) removeLabels(ctx context.Context) error {
	for _, list := range append(liqo.Lists(), &corev1.NamespaceList{}) {
		err := liqo.Change(ctx, u.c, list, func(o client.Object) {
			if !u.announce("leave to Liqo:", o) {
				return
			}
			labels := o.GetLabels()
			for name := range liqo.Managed() {
				delete(labels, name)
			}
			o.SetLabels(labels)
		}, client.MatchingLabels(liqo.Managed()))
		if err != nil && !unknown(err) {
			return err
		}
	}
	return nil
}

// removeFinalizers lets ResourceRequests and VirtualNodePools be deleted without an agent. Their volumes
// stay with Liqo's objects.
func (u *removal) removeFinalizers(ctx context.Context) error {
	for finalizer, list := range map[string]client.ObjectList{
		api.VolumesFinalizer: &api.ResourceRequestList{}, api.VirtualNodesFinalizer: &api.VirtualNodePoolList{},
	} {
		err := liqo.Change(ctx, u.c, list, func(o client.Object) {
			if !u.DryRun {
				controllerutil.RemoveFinalizer(o, finalizer)
			}
		})
		if err != nil && !unknown(err) {
			return err
		}
	}
	return nil
}

// removeKinds deletes the definitions of Bourse's kinds, and with them all of its objects. A broker in the
// same cluster keeps them: its members' objects are of these kinds.
func (u *removal) removeKinds(ctx context.Context) error {
	if u.broker {
		u.Tell("keep each CustomResourceDefinition: a broker in this cluster uses them")
		return nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io",
		Version: "v1", Kind: "CustomResourceDefinitionList"})
	return u.removeAll(ctx, list, func(name string) bool {
		return strings.HasSuffix(name, "."+api.Group)
	})
}
