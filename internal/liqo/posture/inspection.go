package posture

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/liqo"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
)

// Inspection checks a cluster for everything that would stop Bourse or make it less safe. An agent
// makes it, and so does anyone with a kubeconfig before there is an agent: nothing is changed, and
// nothing needs to be installed.
type Inspection struct {
	// Reader reads from the API server; Lists may read from a cache.
	Reader, Lists client.Reader
	// Writer makes dry runs, which prove what is refused.
	Writer client.Writer
	// Namespace is the agent's, or any other that is there; LiqoNamespace that of Liqo. Account is the agent's
	// ServiceAccount; empty: bourse-agent.
	Namespace, LiqoNamespace, Account string
	// Before says that nothing of Bourse is installed yet: looked at is whether it could be.
	Before bool
	// Prove has the policies refuse something, which they do to the agent's own ServiceAccount.
	Prove bool
	// Lends says that the cluster shares something.
	Lends bool
	// Served returns what the API server serves of Liqo's kinds (liqo.Probe).
	Served func() (liqo.Served, error)
	// APIServer overrides the address that Liqo publishes. Dial reports whether an address answers;
	// nil: the inspection does not dial.
	APIServer string
	Dial      func(ctx context.Context, server string) error
	// Installed says whether Liqo's kinds are there; nil: they are.
	Installed func() (bool, error)
}

// Problems are what is found. What cannot be looked at is a problem, too.
func (i *Inspection) Problems(ctx context.Context) []api.Problem {
	if i.Installed != nil {
		if there, err := i.Installed(); err != nil {
			return []api.Problem{health.NotChecked.Of("Liqo", "", "%s", err)}
		} else if !there {
			return []api.Problem{health.LiqoMissing.Of("", "install Liqo "+liqo.Tested+": https://docs.liqo.io",
				"the API server has no Liqo CRDs")}
		}
	}
	var all []api.Problem
	for _, check := range []struct {
		of string
		do func(context.Context) ([]api.Problem, error)
	}{
		{"Liqo's installation", i.installation}, {"Liqo's key", i.key}, {"the admission policies",
			i.policies}, {"the list of consumers", i.list},
		{"Secrets of consumers", i.secrets}, {"Liqo's webhook", i.webhook},
		{"the amounts that Liqo's webhook reads", i.amounts},
		{"namespaces that are offloaded", i.namespaces}, {"pods on virtual nodes",
			i.tolerations}, {"Services named like pods", i.services}, {"the peerings", i.peerings},
	} {
		found, err := check.do(ctx)
		if apierrors.IsForbidden(err) {
			found = append(found, health.RightsMissing.Of(check.of,
				"apply config/rbac and config/liqo, or use an admin's kubeconfig", "%s", err))
		} else if err != nil {
			found = append(found, health.NotChecked.Of(check.of, "", "%s", err))
		}
		all = append(all, found...)
	}
	return all
}

// installation looks at how Liqo was installed.
func (i *Inspection) installation(ctx context.Context) (found []api.Problem, err error) {
	have, err := liqo.ReadInstallation(ctx, i.Reader, i.LiqoNamespace)
	if err != nil {
		return nil, err
	}
	found = i.support(have)
	id, err := liqo.ReadClusterID(ctx, i.Reader, i.LiqoNamespace)
	if err != nil {
		return nil, err
	}
	if len(id) > api.MaxConsumerID {
		found = append(found, health.ClusterIDTooLong.Of("cluster "+id, "install Liqo with a shorter clusterID",
			"the ID has %d characters, and that of a cluster that borrows at most %d", len(id), api.MaxConsumerID))
	}
	if !i.Lends {
		return found, nil
	}
	if have.LimitsEnforcement != "Hard" {
		found = append(found, health.LimitsNotEnforced.Of("",
			"helm upgrade liqo ... --set controllerManager.config.defaultLimitsEnforcement=Hard",
			"defaultLimitsEnforcement is %q", have.LimitsEnforcement))
	}
	if !have.DefaultClassClosed {
		remedy := "peer by hand only with clusters that you trust with this whole cluster"
		if have.CanCloseDefaultClass() {
			remedy = "helm upgrade liqo ... --set authentication.defaultResourceSliceClassEnabled=false"
		}
		found = append(found, health.DefaultClassOpen.Of("", remedy,
			"Liqo's class default grants what it is asked for, without a limit"))
	}
	if i.APIServer != "" {
		have.APIServer = i.APIServer
	}
	return append(found, i.apiServer(ctx, have.APIServer)...), nil
}

// support reports whether Bourse uses this Liqo, and was tested with it.
func (i *Inspection) support(have liqo.Installation) (found []api.Problem) {
	if liqo.Minor(have.Version) == "" {
		found = append(found, health.LiqoUnknown.Of("", "give the Deployment the label app.kubernetes.io/version",
			"Deployment %s/liqo-controller-manager has no version label", i.LiqoNamespace))
	}
	served, err := i.Served()
	if err != nil {
		return append(found, health.NotChecked.Of("whether Liqo "+have.Version+" has all that Bourse uses",
			"check that the API server serves /openapi/v3", "%s", err))
	}
	switch support := liqo.Judge(have, served); {
	case support.Lacks != nil && len(support.Lacks.Modules) > 0:
		enable := ""
		for _, module := range strings.Fields(have.Off) {
			enable += " --set " + module + ".enabled=true"
		}
		return append(found, health.LiqoModuleOff.Of("", "helm upgrade liqo ..."+enable, "%s", support.Refused))
	case support.Refused != "":
		return append(found, health.LiqoIncompatible.Of("", "install Liqo "+liqo.Tested, "%s", support.Refused))
	case support.Untested:
		return append(found, health.LiqoUntested.Of("", "run a test reservation before you depend on it, or install Liqo "+
			liqo.Tested, "the cluster runs Liqo %s; tested is %s", have.Version, liqo.Tested))
	}
	return found
}

// key looks whether Liqo's own key is one that providers take.
func (i *Inspection) key(ctx context.Context) ([]api.Problem, error) {
	_, _, err := peering.Keys(ctx, i.Reader, i.LiqoNamespace)
	if e, ok := errors.AsType[*api.Error](err); ok {
		return []api.Problem{health.LiqoKeyUnusable.Of("", e.Remedy, "%s", e.Detail)}, nil
	}
	return nil, client.IgnoreNotFound(err) // Liqo has yet to make it
}

// apiServer checks the address of the API server that Liqo publishes to consumers.
func (i *Inspection) apiServer(ctx context.Context, server string) []api.Problem {
	const fix = "tell Liqo an address that consumers reach: helm upgrade liqo ... --set apiServer.address=HOST:PORT"
	if server == "" {
		return []api.Problem{health.APIServerUnknown.Of("", fix, "no control plane node is visible and no address is set")}
	}
	u, err := url.Parse(server)
	if err != nil {
		return []api.Problem{health.APIServerUnknown.Of(server, fix, "%s", err)}
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) ||
		u.Hostname() == "localhost" {
		return []api.Problem{health.APIServerLocal.Of(server, fix, "the address is local: consumers would reach themselves")}
	}
	if i.Dial == nil {
		return nil
	}
	if err := i.Dial(ctx, server); err != nil {
		return []api.Problem{health.APIServerSilent.Of(server, fix, "no answer from here: %s", err)}
	}
	return nil
}

func (i *Inspection) policies(ctx context.Context) (found []api.Problem, err error) {
	if !i.Lends {
		return nil, nil
	}
	if i.Before {
		err := i.Reader.List(ctx, &admissionv1.ValidatingAdmissionPolicyList{}, client.Limit(1))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return []api.Problem{health.PoliciesMissing.Of("", "upgrade to Kubernetes 1.30 or later, or only borrow",
				"the API server has no ValidatingAdmissionPolicy")}, nil
		}
		return nil, err
	}
	p := &Policies{Known: i.Lists, Reader: i.Reader, Writer: i.Writer, Namespace: i.Namespace, Account: i.Account}
	look := p.Stand
	if i.Prove {
		look = p.InForce
	}
	err = look(ctx)
	if e, ok := errors.AsType[*api.Error](err); ok {
		kind := health.PoliciesMissing
		if e.Field == otherAgent {
			kind = health.PoliciesForAnother
		}
		return []api.Problem{kind.Of("", e.Remedy, "%s", e.Detail)}, nil
	}
	if err != nil {
		return nil, err
	}
	newer, err := p.newer(ctx)
	if err != nil || newer == "" {
		return nil, err
	}
	return []api.Problem{health.PoliciesNewer.Of("", "upgrade the agent: helm upgrade bourse-agent charts/bourse-agent "+
		"--reset-then-reuse-values", "the admission policies are of version %s", newer)}, nil
}

// list looks whether the list of brokered consumers is there, and how full it is. An agent that may write the list writes
// a missing one again soon: that is no problem.
func (i *Inspection) list(ctx context.Context) ([]api.Problem, error) {
	if !i.Lends || i.Before {
		return nil, nil
	}
	m := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: consumers}}
	err := i.Reader.Get(ctx, client.ObjectKeyFromObject(&m), &m)
	if apierrors.IsNotFound(err) {
		select {
		case <-time.After(2 * keepAgain):
		case <-ctx.Done():
		}
		err = i.Reader.Get(ctx, client.ObjectKeyFromObject(&m), &m)
	}
	if apierrors.IsNotFound(err) {
		return []api.Problem{i.missingList(ctx)}, nil
	}
	if err != nil {
		return nil, err
	}
	if size := sizeOf(m.Data); size > MaxList*6/10 {
		return []api.Problem{health.ConsumersCrowded.Of("ConfigMap "+consumers,
			"lend to fewer clusters, or close peerings that nobody needs", "it has %d of at most %d bytes", size, MaxList)}, nil
	}
	return nil, nil
}

// missingList returns the problem that the list of brokered consumers is missing, with what keeps the agent from writing
// it.
func (i *Inspection) missingList(ctx context.Context) api.Problem {
	why := "the agent may write it, and did not"
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: consumers}}
	if err := i.Writer.Create(ctx, m, client.DryRunAll); err != nil {
		why = "the agent cannot write it: " + err.Error()
	}
	return health.ConsumersMissing.Of("ConfigMap "+consumers, "apply config/liqo, or upgrade the charts bourse-base and "+
		"bourse-agent; then see the log of the agent that leads", "%s", why)
}

// webhook asks Liqo's webhook by a dry run of what it always lets pass.
func (i *Inspection) webhook(ctx context.Context) ([]api.Problem, error) {
	slice := &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: "bourse-proof"},
		Spec:       authv1beta1.ResourceSliceSpec{Class: liqo.Class},
	}
	err := i.Writer.Create(ctx, slice, client.DryRunAll)
	if err != nil && strings.Contains(err.Error(), "failed calling webhook") {
		return []api.Problem{health.LiqoWebhookDown.Of("",
			fmt.Sprintf("look at its pods: kubectl -n %s get pods -l app.kubernetes.io/component=webhook",
				i.LiqoNamespace), "%s", err)}, nil
	}
	if apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return nil, nil // somebody answered
	}
	return nil, err
}

// namespaces finds what would be offloaded to a provider that nobody has chosen yet.
func (i *Inspection) namespaces(ctx context.Context) (found []api.Problem, err error) {
	var list offv1beta1.NamespaceOffloadingList
	if err := i.Lists.List(ctx, &list); err != nil {
		return nil, err
	}
	for _, o := range list.Items {
		var ns corev1.Namespace
		if err := i.Lists.Get(ctx, client.ObjectKey{Name: o.Namespace}, &ns); client.IgnoreNotFound(err) != nil {
			return found, err
		}
		if !liqo.IsOurs(&o) && offload.SelectsAny(&o) && !offload.Consents(&ns) {
			found = append(found, health.WouldOffloadOthers.Of("namespace "+o.Namespace,
				fmt.Sprintf("kubectl -n %s edit namespaceoffloading %s: name the intended providers in clusterSelector, by %s; "+
					"or consent: kubectl label namespace %s %s=true",
					o.Namespace, o.Name, consts.RemoteClusterID, o.Namespace, api.OffloadToAnyLabel),
				"its NamespaceOffloading selects every virtual node, also future ones: requests that would add "+
					"a virtual node stop"))
		}
	}
	return found, nil
}

// tolerations says how long pods wait on a virtual node that is gone.
func (i *Inspection) tolerations(ctx context.Context) (found []api.Problem, err error) {
	var list offv1beta1.NamespaceOffloadingList
	if err := i.Lists.List(ctx, &list); err != nil {
		return nil, err
	}
	for _, o := range list.Items {
		var pods corev1.PodList
		if err := i.Reader.List(ctx, &pods, client.InNamespace(o.Namespace), client.Limit(100)); err != nil {
			return found, err
		}
		longest := int64(-1)
		for _, p := range pods.Items {
			if p.Labels[consts.LocalPodLabelKey] != consts.LocalPodLabelValue {
				continue
			}
			for _, t := range p.Spec.Tolerations {
				if t.Key == corev1.TaintNodeNotReady && t.TolerationSeconds != nil {
					longest = max(longest, *t.TolerationSeconds)
				}
			}
		}
		if longest >= 0 {
			found = append(found, health.TolerationSeconds.Of("namespace "+o.Namespace,
				"give the pods a toleration of "+corev1.TaintNodeNotReady+" with shorter tolerationSeconds",
				"its pods stay on a virtual node that is not Ready for up to %d s", longest))
		}
	}
	return found, nil
}
