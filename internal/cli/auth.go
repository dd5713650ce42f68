package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

func (sh *shell) authCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "auth", GroupID: "run", Short: "Show who you are in a cluster, or print what grants others access",
	}
	var agent string
	cmd.PersistentFlags().StringVar(&agent, "agent-namespace", api.Namespace, "namespace of the agent in the cluster")
	cmd.AddCommand(sh.whoamiCommand(&agent), sh.grantCommand(&agent))
	return cmd
}

// portForwardRole is the Role that lets a user reach the agent in its pod (config/rbac/people.yaml).
const portForwardRole = "bourse-port-forward"

func (sh *shell) whoamiCommand(agent *string) *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "Show who you are in the cluster of your kubeconfig, and what you may do with Bourse there",
		Long: "Whoami asks the API server. It needs no right of yours, and no agent.",
		Args: cobra.NoArgs, Example: "  bourse auth whoami --context rome -n team-a",
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := sh.userConfig()
			if err != nil {
				return err
			}
			c, err := client.NewForConfig(config)
			if err != nil {
				return err
			}
			return sh.whoami(cmd.Context(), c, *agent)
		},
	}
}

func (sh *shell) whoami(ctx context.Context, c client.Interface, agent string) error {
	me, err := c.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil {
		return kubeobject.Error(err)
	}
	user := me.Status.UserInfo
	fmt.Fprintf(sh.out, "user       %s\n", user.Username)
	fmt.Fprintf(sh.out, "groups     %s\n", cmp.Or(strings.Join(user.Groups, ", "), "-"))
	fmt.Fprintf(sh.out, "namespace  %s\n", sh.namespace)
	for _, question := range []struct {
		may string
		of  authorizationv1.ResourceAttributes
	}{
		{"request there", authorizationv1.ResourceAttributes{Namespace: sh.namespace, Verb: "create", Group: api.Group,
			Resource: "resourcerequests"}},
		{"ask for the namespace", authorizationv1.ResourceAttributes{Namespace: sh.namespace, Verb: "create",
			Group: api.Group, Resource: "sessions"}},
		{"ask for the whole cluster", authorizationv1.ResourceAttributes{Verb: "create", Group: api.Group,
			Resource: "clustersessions"}},
		{"decide what is lent", authorizationv1.ResourceAttributes{Verb: "patch", Group: api.Group,
			Resource: "sharingpolicies"}},
		{"reach an agent in a pod", authorizationv1.ResourceAttributes{Namespace: agent, Verb: "create",
			Resource: "pods", Subresource: "portforward"}},
	} {
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &question.of}}
		review, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return kubeobject.Error(err)
		}
		word := "no"
		if review.Status.Allowed {
			word = "yes"
		}
		fmt.Fprintf(sh.out, "%-26s %s\n", question.may, word)
	}
	return nil
}

func (sh *shell) grantCommand(agent *string) *cobra.Command {
	var group bool
	cmd := &cobra.Command{
		Use:   "grant USER",
		Short: "Print the objects that let a user request resources in a namespace",
		Long: "Grant prints two RoleBindings: the role bourse-requester in the namespace, and the way to the agent's pods.\n" +
			"It changes nothing.",
		Args: cobra.ExactArgs(1), Example: "  bourse auth grant ann -n team-a | kubectl apply -f -",
		RunE: func(_ *cobra.Command, args []string) error {
			if sh.namespace == "" {
				return api.Invalid("--namespace", "is missing").Fix("name the namespace in which %s may request: -n NAMESPACE", args[0])
			}
			switch sh.namespace {
			case *agent:
				fmt.Fprintf(sh.progress, "warning: %s is the namespace of the agent: %s can then read there what the cluster sells and "+
					"lends\n", sh.namespace, args[0])
			case metav1.NamespaceDefault:
				fmt.Fprintf(sh.progress, "warning: in namespace default are the requests of all who name no namespace: %s can then see "+
					"and change them\n", args[0])
			}
			kind := rbacv1.UserKind
			if group {
				kind = rbacv1.GroupKind
			}
			return sh.printBindings(*agent, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: kind, Name: args[0]})
		},
	}
	cmd.Flags().BoolVar(&group, "group", false, "USER is the name of a group")
	return cmd
}

func (sh *shell) printBindings(agent string, to rbacv1.Subject) error {
	for _, b := range []struct {
		namespace string
		role      rbacv1.RoleRef
	}{
		{sh.namespace, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "bourse-requester"}},
		{agent, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: portForwardRole}},
	} {
		text, err := yaml.Marshal(map[string]any{
			"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "RoleBinding",
			// a user's name may hold what the name of an object may not, but not : and /
			"metadata": map[string]string{"namespace": b.namespace,
				"name": b.role.Name + ":" + strings.NewReplacer("/", ":", "%", ":").Replace(to.Name)},
			"roleRef": b.role, "subjects": []rbacv1.Subject{to},
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(sh.out, "---\n%s", text)
	}
	return nil
}
