package federation_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/plugin/plugintest"
)

// A provider lends no more than its resource plugin says: what would be more is refused with the numbers, what is bound stays, whether the
// plugin allows less or is away; the policy, the doctor and the plugin itself are told.
func TestResourcePlugin(t *testing.T) {
	f := newFair(t)
	p := plugintest.Start(t, plugintest.V09, "")
	p.Allow("rome", map[string]string{"cpu": "3", "memory": "8Gi", "pods": "20"})
	names := func(address string) {
		t.Helper()
		var policy api.SharingPolicy
		if err := f.milan.Objects.Get(t.Context(), kube.ObjectKey{Name: "default"}, &policy); err != nil {
			t.Fatal(err)
		}
		policy.Spec.ResourcePlugin = address
		if err := f.milan.Objects.Update(t.Context(), &policy); err != nil {
			t.Fatal(err)
		}
	}
	shows := func(status string) {
		t.Helper()
		f.until("the policy shows that the plugin is "+status, func() bool {
			var policy api.SharingPolicy
			err := f.milan.Objects.Get(t.Context(), kube.ObjectKey{Name: "default"}, &policy)
			c := meta.FindStatusCondition(policy.Status.Conditions, api.ConditionResourcePlugin)
			return err == nil && (c == nil && status == "" || c != nil && c.Reason == status)
		})
	}
	finds := func(code string) string {
		t.Helper()
		d, err := f.milan.People.Diagnose(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range d.Problems {
			if problem.Code == code {
				return fmt.Sprint(problem.Subject, ": ", problem.Detail)
			}
		}
		return ""
	}
	ask := func(name, cpu string) (s api.ResourceRequestStatus) {
		t.Helper()
		r := api.RequestCreate{Name: name, Request: api.Request{Resources: api.Resources{"cpu": resource.MustParse(cpu)}}}
		if _, err := f.rome.People.MakeRequest(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		f.becomes(f.rome, name, func(now api.ResourceRequestStatus) bool {
			s = now
			return s.State == api.Reserved || s.State != "" && s.State.Over()
		})
		return s
	}
	refused := func(name, cpu, why string) {
		t.Helper()
		if s := ask(name, cpu); s.State == api.Reserved || !strings.Contains(s.Message, why) {
			t.Errorf("%s: %s %q", name, s.State, s.Message)
		}
	}

	names(p.Address)
	shows("Answers")
	bound := ask("fits", "2")
	if bound.State != api.Reserved {
		t.Fatalf("%+v", bound)
	}
	refused("more", "2", "allows rome 3 cpu, which has 2 and asks for 2")

	p.Allow("rome", map[string]string{"cpu": "1"})
	f.until("the doctor says that rome has more than it may", func() bool {
		return strings.Contains(finds("AboveResourcePlugin"), "cluster rome: it has 2 cpu, and the plugin allows 1 cpu")
	})

	p.Stop()
	shows("NoAnswer")
	refused("away", "1", "asks a resource plugin how much it lends")
	if why := finds("ResourcePluginSilent"); !strings.Contains(why, p.Address) {
		t.Errorf("the doctor says %q", why)
	}
	if s := must(f.rome.People.Request(t.Context(), "default", "fits"))(t); s.Payload.Status.State != api.Reserved {
		t.Errorf("what is bound is %+v", s.Payload.Status)
	}

	back := plugintest.Start(t, plugintest.V05, p.Address) // of another dialect now
	back.Allow("rome", map[string]string{"cpu": `"4"`})
	shows("Answers")
	if s := ask("again", "2"); s.State != api.Reserved {
		t.Errorf("%+v", s)
	}
	for _, name := range []string{"fits", "again"} {
		if removed := back.Removed(); len(removed) > 0 {
			t.Errorf("it was told that %q left, and rome still has something", removed)
		}
		object := &api.ResourceRequest{}
		object.Namespace, object.Name = "default", name
		if err := f.rome.Objects.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	f.until("the plugin hears that rome has nothing left", func() bool { return fmt.Sprint(back.Removed()) == "[rome]" })

	names("")
	shows("")
	if s := ask("free", "6"); s.State != api.Reserved {
		t.Errorf("without a plugin: %+v", s)
	}
	names("unix:///run/plugin.sock")
	f.until("the policy says that this is no address", func() bool {
		var policy api.SharingPolicy
		err := f.milan.Objects.Get(t.Context(), kube.ObjectKey{Name: "default"}, &policy)
		c := meta.FindStatusCondition(policy.Status.Conditions, api.ConditionReady)
		return err == nil && c != nil && c.Status == "False" && strings.Contains(c.Message, "resourcePlugin")
	})
}
