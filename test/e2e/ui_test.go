package e2e

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/ui/browser"
)

// A user with the role bourse-requester in one namespace finds, requests, extends and releases in the web UI. A policy by
// the user's name stops a request, the audit log names the user, and no page shows what other namespaces have.
func TestUIByKubeconfig(t *testing.T) {
	w := start(t)
	for _, namespace := range []string{"hers", "theirs"} {
		makeNamespace(t, w.rome, namespace)
	}
	granted, err := bourse(t.Context(), "auth", "grant", "gaia", "-n", "hers")
	if err == nil {
		err = w.rome.Cluster.Apply(t.Context(), []byte(granted))
	}
	if err == nil {
		err = w.rome.Cluster.Apply(t.Context(), []byte(neverPolicy))
	}
	if err != nil {
		t.Fatal(err)
	}
	others := ask(t, w.rome, "theirs", "secret", api.Request{Resources: cpu("1"), Target: "milan"})
	becomes(t, w.rome, others, api.Reserved)
	never := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "hers", Name: "never"},
		Spec: api.ResourceRequestSpec{Request: api.Request{Resources: cpu("1")}}}
	eventually(t, "the role and the policy are known", func(ctx context.Context) error {
		err := as(t, w.rome, "gaia").Create(ctx, never.DeepCopy(), kube.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "gaia may not ask for never") {
			return fmt.Errorf("the policy is not in force: %w", err)
		}
		return nil
	})
	v := browser.Visit(t, "rome", w.rome.KubeconfigOf(t, "gaia"), "hers")
	find := url.Values{"cpu": {"1"}, "namespace": {"hers"}, "name": {"never"}, "for": {"1h"}}
	v.See(patience, "/find?cpu=1", "milan")
	v.See(patience, "/find?panel=review&cpu=1&for=1h&namespace=hers", "would get")
	v.Create("gaia may not ask for never", find)
	find.Set("name", "mine")
	v.Create("ResourceRequest hers/mine made", find)
	o := api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "hers", Name: "mine"}}
	becomes(t, w.rome, &o, api.Reserved)
	v.See(patience, "/requests/hers/mine", "Reserved")
	seen := browser.Seen(o)
	seen.Set("for", "3h")
	v.Act("/requests/hers/mine/extend", "The new end is asked for", seen)
	seen.Set("generation", "99")
	v.Act("/requests/hers/mine/release", "has changed since you saw it", seen)
	for _, path := range []string{"/", "/borrowing", "/find?cpu=1", "/requests/theirs/secret", "/requests/hers/mine", "/pools/any"} {
		if page := v.Open(path); strings.Contains(page, others.Status.Reservation) ||
			strings.Contains(page, "theirs") && !strings.Contains(path, "theirs") {
			t.Errorf("%s shows what another namespace has: %s", path, page)
		}
	}
	eventually(t, "it is released", func(ctx context.Context) error {
		if err := w.rome.Objects.Get(ctx, kube.ObjectKey{Namespace: "hers", Name: "mine"}, &o); err != nil {
			return err
		}
		page := v.Post("/requests/hers/mine/release", browser.Seen(o))
		if !strings.Contains(page, "hers/mine is being released") {
			return fmt.Errorf("not yet: %s", page[max(0, strings.Index(page, "<main")):])
		}
		return nil
	})
	logged := map[string]int{}
	for _, a := range answersOf(t, w.rome, func(a answer) bool { return a.As.Username == "gaia" }) {
		logged[a.Verb+" "+a.resource()]++
	}
	for _, what := range []string{"create sessions", "create resourcerequests", "patch resourcerequests", "delete resourcerequests"} {
		if logged[what] == 0 {
			t.Errorf("the audit log has none of the user's %s", what)
		}
	}
	release(t, w.rome, others)
}
