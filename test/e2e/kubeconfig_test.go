package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/cli"
)

// bourse runs a command, and returns what it writes and the error.
func bourse(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	root := cli.Root(&out, &out)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(&out, "error:", err)
	}
	return out.String(), err
}

// A user with a RoleBinding in one namespace finds, previews, requests, watches, extends and releases by bourse with the own
// kubeconfig. The API server's policies and its audit log see the user. Nothing of other namespaces is shown.
func TestBourseByKubeconfig(t *testing.T) {
	w := start(t)
	for _, namespace := range []string{"hers", "theirs"} {
		makeNamespace(t, w.rome, namespace)
	}
	granted, err := bourse(t.Context(), "auth", "grant", "gaia", "-n", "hers")
	if err == nil {
		err = w.rome.Cluster.Apply(t.Context(), []byte(granted))
	}
	if err != nil {
		t.Fatal(err)
	}
	others := ask(t, w.rome, "theirs", "secret", api.Request{Resources: cpu("1"), Target: "milan"})
	becomes(t, w.rome, others, api.Reserved)
	if err := w.rome.Cluster.Apply(t.Context(), []byte(neverPolicy)); err != nil {
		t.Fatal(err)
	}
	never := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "hers", Name: "never"},
		Spec: api.ResourceRequestSpec{Request: api.Request{Resources: cpu("1")}}}
	eventually(t, "the role and the policy are known", func(ctx context.Context) error {
		if err := as(t, w.rome, "gaia").Create(ctx, never.DeepCopy(), kube.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("the policy is not in force: %w", err)
		}
		return nil
	})
	as := []string{"--kubeconfig", w.rome.KubeconfigOf(t, "gaia"), "-n", "hers"}
	for _, step := range []struct {
		args, says string
		fails      api.Code
	}{
		{"auth whoami", "user       gaia", ""},
		{"auth whoami", "ask for the namespace      yes", ""},
		{"auth whoami", "ask for the whole cluster  no", ""},
		{"auth whoami", "reach an agent in a pod    yes", ""},
		{"clusters", "milan", ""},
		{"reserve --name never --cpu 1", "gaia may not ask for never", api.CodeInvalid},
		{"reserve --name mine --cpu 1 --target milan --dry-run", "<- this one", ""},
		{"reserve --name mine --cpu 1 --target milan --for 1h", "milan is bound until", ""},
		{"reserve --name never --cpu 1", "as gaia at ", api.CodeInvalid},
		{"reserve --name mine --cpu 1", "has a ResourceRequest mine already", api.CodeConflict},
		{"reservations", "milan", ""},
		{"reservations --watch", "milan", ""},
		{"why mine", "milan", ""},
		{"extend mine --for 3h", "", ""},
		{"resize mine --cpu 2", "", ""},
		{"describe mine", "milan", ""},
		{"why " + others.Status.Reservation, "", api.CodeNotFound},
		{"release " + others.Status.Reservation, "", api.CodeNotFound},
		{"doctor", "bourse-viewer", api.CodeForbidden},
		{"-n theirs reservations", "bourse-requester", api.CodeForbidden},
		{"release mine", "is being released", ""},
	} {
		ctx, stop := context.WithCancel(t.Context())
		if strings.HasSuffix(step.args, "--watch") { // it runs until it is interrupted
			time.AfterFunc(10*time.Second, stop)
		}
		said, err := bourse(ctx, append(as, strings.Fields(step.args)...)...)
		stop()
		if (err == nil) != (step.fails == "") || err != nil && api.CodeOf(err) != step.fails || !strings.Contains(said, step.says) {
			t.Errorf("bourse %s: %v, want %q:\n%s", step.args, err, step.fails, said)
		}
		if strings.Contains(said, "secret") || strings.Contains(said, "theirs/") {
			t.Errorf("bourse %s shows what another namespace has:\n%s", step.args, said)
		}
	}
	logged := map[string]int{}
	for _, a := range answersOf(t, w.rome, func(a answer) bool { return a.As.Username == "gaia" }) {
		logged[a.Verb+" "+a.resource()]++
	}
	for what, least := range map[string]int{"create sessions": 10, "create resourcerequests": 2, "patch resourcerequests": 2,
		"watch resourcerequests": 1, "delete resourcerequests": 1} {
		if logged[what] < least {
			t.Errorf("the audit log has %d of the user's %s, want %d", logged[what], what, least)
		}
	}
	eventually(t, "no session is left", func(ctx context.Context) error {
		var all api.SessionList
		err := w.rome.Objects.List(ctx, &all)
		for _, s := range all.Items {
			if s.Namespace == "hers" {
				err = errors.Join(err, fmt.Errorf("%s is left", s.Name))
			}
		}
		return err
	})
	release(t, w.rome, others)
}

// neverPolicy forbids one user a request of one name.
const neverPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: never}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [bourse.dev], apiVersions: ["*"], operations: [CREATE], resources: [resourcerequests]}]
  validations:
    - expression: "request.userInfo.username != 'gaia' || object.metadata.name != 'never'"
      message: gaia may not ask for never
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: never}
spec: {policyName: never, validationActions: [Deny]}
`

// An admin of a provider sells, approves and suspends by bourse with the own kubeconfig.
func TestAdminByKubeconfig(t *testing.T) {
	w := start(t)
	bind(t, w.paris, "sofia", "bourse-provider-admin", "")
	as := []string{"--kubeconfig", w.paris.KubeconfigOf(t, "sofia")}
	eventually(t, "the role is known", func(ctx context.Context) error {
		said, err := bourse(ctx, append(as, "doctor")...)
		if api.CodeOf(err) == api.CodeConflict { // it found an Error
			err = nil
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
		return nil
	})
	run := func(command string) string {
		t.Helper()
		said, err := bourse(t.Context(), append(as, strings.Fields(command)...)...)
		if err != nil {
			t.Errorf("bourse %s: %v", command, err)
		}
		return said
	}
	run("offer create gated --plan small:cpu=1,memory=1Gi,price=0.1EUR/hour --approve-within 1h")
	var digest string
	eventually(t, "rome sees the offer", func(ctx context.Context) error {
		offer, err := w.rome.People(0).Offer(ctx, "paris", "gated")
		digest = offer.Payload.Digest
		return err
	})
	buy := api.Request{Purchase: &api.Purchase{Seller: "paris", Offer: "gated", Plan: "small", Digest: digest},
		Duration: &metav1.Duration{Duration: time.Hour}}
	bought := ask(t, w.rome, "default", "gated", buy)
	var id string
	eventually(t, "it waits for approval", func(ctx context.Context) error {
		if err := w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(bought), bought); err != nil {
			return err
		}
		id = bought.Status.Reservation
		if said, err := bourse(ctx, append(as, "approvals", "-o", "name")...); err != nil || id == "" || !strings.Contains(said, id) {
			return fmt.Errorf("%q is not among them: %s, %v; %s", id, said, err, bought.Status.Message)
		}
		return nil
	})
	said := run("approvals -o jsonpath={[*].payload.digest}")
	run("approve " + id + " --digest " + strings.TrimSpace(said))
	becomes(t, w.rome, bought, api.Reserved)
	if said := run("contracts -n bourse"); !strings.Contains(said, id) {
		t.Errorf("the contract is not shown: %s", said)
	}
	for command, says := range map[string]string{"suspend rome --reason test": "rome", "peers": "rome", "resume rome": "rome",
		"vnp": "", "brokers": "main", "audit rome": "rome", "offer delete gated --yes": ""} {
		if said := run(command); !strings.Contains(said, says) {
			t.Errorf("bourse %s: %s", command, said)
		}
	}
	run("resume rome")
	release(t, w.rome, bought)
}
