package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// calls writes calls as no agent does, and returns the answers when there are so many.
func (w *fixture) calls(cluster string, answers int, calls map[string]any) (got map[string]kubernetes.Answer) {
	w.t.Helper()
	object := kubernetes.Object(kubernetes.Advertisements, kubernetes.Namespace(cluster),
		kubernetes.AdvertisementName(cluster))
	w.patch(object, map[string]any{"spec": map[string]any{"calls": nil}}, false)
	w.patch(object, map[string]any{"spec": map[string]any{"calls": calls}}, false)
	w.eventually("the answers", func() error {
		got = w.status(cluster).Answers
		for id, a := range got {
			if _, asked := calls[id]; !asked || !a.Done {
				return errNotYet
			}
		}
		if len(got) != answers {
			return fmt.Errorf("%d answers", len(got))
		}
		return nil
	})
	return got
}

func TestHostileCalls(t *testing.T) {
	w := newFixture(t)
	w.join("rome")
	w.Join("milan")
	for name, c := range map[string]struct {
		call kubernetes.Call
		want int
	}{
		"another's card":     {kubernetes.Call{Method: "PUT", Path: api.Prefix + "/clusters/milan/card", Body: `{"document":"x"}`}, http.StatusForbidden},
		"an operator's call": {kubernetes.Call{Method: "GET", Path: api.Prefix + "/members"}, http.StatusForbidden},
		"admits itself": {kubernetes.Call{Method: "POST", Path: api.Prefix + "/members/rome/approve"},
			http.StatusForbidden},
		"a certificate":     {kubernetes.Call{Method: "POST", Path: api.Prefix + "/renew", Body: `{"csr":""}`}, http.StatusForbidden},
		"joins":             {kubernetes.Call{Method: "POST", Path: api.Prefix + "/join", Body: `{}`}, http.StatusForbidden},
		"by a detour":       {kubernetes.Call{Method: "POST", Path: api.Prefix + "/x/../renew", Body: `{"csr":""}`}, http.StatusNotFound},
		"escaped":           {kubernetes.Call{Method: "POST", Path: api.Prefix + "/rene%77", Body: `{"csr":""}`}, http.StatusForbidden},
		"a slash more":      {kubernetes.Call{Method: "POST", Path: api.Prefix + "/renew/", Body: `{"csr":""}`}, http.StatusNotFound},
		"another interface": {kubernetes.Call{Method: "GET", Path: "/api/v1/instructions"}, http.StatusUnprocessableEntity},
		"another host": {kubernetes.Call{Method: "GET", Path: "https://evil.example" + api.Prefix + "/clusters"},
			http.StatusUnprocessableEntity},
		"no path": {kubernetes.Call{Method: "GET"}, http.StatusUnprocessableEntity},
		"no method": {kubernetes.Call{Method: "G T", Path: api.Prefix + "/clusters"},
			http.StatusUnprocessableEntity},
		"nonsense": {kubernetes.Call{Method: "POST", Path: api.Prefix + "/evaluations", Body: "{"},
			http.StatusUnprocessableEntity},
		"too large": {kubernetes.Call{Method: "POST", Path: api.Prefix + "/evaluations",
			Body: strings.Repeat(" ", kubernetes.MaxBody+1)}, http.StatusRequestEntityTooLarge},
		"a header": {kubernetes.Call{Method: "POST", Path: api.Prefix + "/evaluations",
			Key: "a\r\nX: y", Body: "{}"}, http.StatusUnprocessableEntity},
	} {
		answers := w.calls("rome", 1, map[string]any{name: c.call})
		if a := answers[name]; a.Status != c.want {
			t.Errorf("%s: %d %s, want %d", name, a.Status, a.Body, c.want)
		}
	}
}

// More calls than an agent makes are not made, and neither are any in another's name.
func TestAFlood(t *testing.T) {
	w := newFixture(t)
	w.join("rome")
	flood := map[string]any{}
	for i := range 100 {
		flood[fmt.Sprint("c", i)] = kubernetes.Call{Method: "GET", Path: api.Prefix + "/clusters"}
	}
	w.calls("rome", 0, flood)
	w.eventually("it is said why", func() error {
		if s := w.status("rome"); !strings.Contains(s.Message, "100 calls") || len(s.Answers) != 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	object := kubernetes.Object(kubernetes.Advertisements, kubernetes.Namespace("rome"),
		kubernetes.AdvertisementName("rome"))
	w.patch(object, map[string]any{"spec": map[string]any{"calls": nil}}, false)
	w.patch(object, map[string]any{"spec": map[string]any{"clusterID": "milan", "calls": map[string]any{
		"c": kubernetes.Call{Method: "GET", Path: api.Prefix + "/clusters"}}}}, false)
	w.eventually("it is said why", func() error {
		if s := w.status("rome"); !strings.Contains(s.Message, "may not speak for") || len(s.Answers) != 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// A namespace is bound by its label and its name, so that nobody who may make one gets another's place.
func TestANamespaceIsBoundByItsName(t *testing.T) {
	w := newFixture(t)
	w.bind("rome")
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "evil",
		Labels: map[string]string{kubernetes.ClusterLabel: "rome"}}}
	if err := w.kube.Create(context.Background(), other); err != nil {
		t.Fatal(err)
	}
	w.bind("oslo") // comes after it
	if _, err := w.object(kubernetes.Object(kubernetes.Advertisements,
		"evil", kubernetes.AdvertisementName("rome"))); err == nil {
		t.Error("it is served")
	}
	long := strings.Repeat("a", 63)
	if name := kubernetes.Namespace(long); len(name) > 63 || name == kubernetes.Namespace(long[:62]+"b") {
		t.Errorf("the namespace of the longest ID is %s", name)
	}
}

// One that was removed may ask to be admitted again, and its account stays if it is of later than that.
func TestOneThatWasRemovedComesBack(t *testing.T) {
	w := newFixture(t)
	ctx := context.Background()
	rome, line := w.join("rome")
	if _, err := w.Operator.SetMember(ctx, "rome", "remove"); err != nil {
		t.Fatal(err)
	}
	if _, err := line.Reservations(ctx); api.CodeOf(err) != api.CodeSuspended {
		t.Errorf("a removed member's call: %v", err)
	}
	w.eventually("its account is gone", w.noAccount("rome"))
	time.Sleep(1100 * time.Millisecond) // the account's time has whole seconds
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: kubernetes.Namespace("rome"),
		Name: kubernetes.Account}}
	if err := w.kube.Create(ctx, account); err != nil {
		t.Fatal(err)
	}
	if err := line.PutCard(ctx, "rome", rome.Card(api.Properties{})); api.CodeOf(err) != api.CodeNotMember {
		t.Errorf("its card: %v", err)
	}
	if _, err := w.Operator.SetMember(ctx, "rome", "approve"); err != nil {
		t.Fatal(err)
	}
	if err := line.PutCard(ctx, "rome", rome.Card(api.Properties{})); err != nil {
		t.Error(err)
	}
	if err := w.kube.Get(ctx, keyOf(account), account); err != nil {
		t.Errorf("its new account: %v", err)
	}
}

func TestOneThatIsNoMemberAnyMore(t *testing.T) {
	w := newFixture(t)
	ctx := context.Background()
	_, romes, r := w.reserved()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: kubernetes.Namespace("rome"),
		Name: kubernetes.Account}}
	w.eventually("it has an account", func() error { return w.account("rome") })
	step := func(step string) {
		t.Helper()
		w.step("rome", step)
	}
	picture := kubernetes.Object(kubernetes.Reservations, account.Namespace, r.ID)
	w.eventually("it is shown", func() error { _, err := w.object(picture.DeepCopy()); return err })
	step("suspend")
	if _, err := romes.Reservations(ctx); api.CodeOf(err) != api.CodeSuspended {
		t.Errorf("a suspended member's call: %v", err)
	}
	if _, err := w.object(picture.DeepCopy()); err != nil {
		t.Errorf("what it has is not shown while it is suspended: %v", err)
	}
	step("resume")
	if _, err := romes.Reservations(ctx); err != nil {
		t.Error(err)
	}
	step("revoke")
	if _, err := romes.Reservations(ctx); api.CodeOf(err) != api.CodeSuspended {
		t.Errorf("a revoked member's call: %v", err)
	}
	w.eventually("its account and its pictures are gone", func() error {
		if _, err := w.object(picture.DeepCopy()); err == nil {
			return errors.New("the picture is there")
		}
		u := account.DeepCopy()
		if err := w.kube.Get(ctx, keyOf(u), u); err == nil {
			return errors.New("the account is there")
		}
		return nil
	})
	if s := w.status("rome"); s.Member != api.MemberRevoked || s.Active || s.Message == "" {
		t.Errorf("%+v", s)
	}
}
