package policies

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// someKey is the digest of a key.
var someKey = strings.Repeat("0a", 32)

func session(namespace, name string) *api.Session {
	return &api.Session{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: api.SessionSpec{Key: someKey}}
}

func clusterSession(name string) *api.ClusterSession {
	return &api.ClusterSession{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.SessionSpec{Key: someKey}}
}

func (w *world) user(t *testing.T, name string) kube.Client {
	t.Helper()
	return w.mustAs(t, account{name, rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}})
}

// A requester makes, reads and deletes sessions where the role is bound, and changes none. A binding for all namespaces
// gives no session for the cluster. Who sees the whole cluster makes both.
func TestWhoMakesSessions(t *testing.T) {
	w := start(t)
	w.applyRequests(t)
	if err := errors.Join(
		w.bind(t.Context(), own, "bourse-requester", rbacv1.UserKind, "asker"),
		w.bind(t.Context(), "", "bourse-requester", rbacv1.UserKind, "asker-everywhere"),
		w.bind(t.Context(), "", "bourse-viewer", rbacv1.UserKind, "sessions-viewer"),
		w.bind(t.Context(), "", "bourse-provider-admin", rbacv1.UserKind, "sessions-admin")); err != nil {
		t.Fatal(err)
	}
	asker := w.user(t, "asker")
	w.eventually(t, "the binding is known",
		func() error { return asker.Create(t.Context(), session(own, "probe"), kube.DryRunAll) })
	made, others := session(own, "made"), session(own, "others")
	if err := errors.Join(asker.Create(t.Context(), made), w.admin.Create(t.Context(), others)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.admin.Delete(t.Context(), made) }()
	changed, served := made.DeepCopy(), made.DeepCopy()
	changed.Spec.Key, served.Status.Message = strings.Repeat("0b", 32), "served"
	for what, err := range map[string]error{
		"in another namespace": asker.Create(t.Context(), session(mapped, "made"), kube.DryRunAll),
		"for the cluster":      asker.Create(t.Context(), clusterSession("made"), kube.DryRunAll),
		"with another key":     asker.Patch(t.Context(), changed, kube.MergeFrom(made), kube.DryRunAll),
		"by an update":         asker.Update(t.Context(), changed, kube.DryRunAll),
		"as the agent":         asker.Status().Patch(t.Context(), served, kube.MergeFrom(made), kube.DryRunAll),
		"as a list":            asker.List(t.Context(), &api.SessionList{}, kube.InNamespace(own)),
		"all at once":          asker.DeleteAllOf(t.Context(), made, kube.InNamespace(own)),
	} {
		if !apierrors.IsForbidden(err) || isPolicy(err) {
			t.Errorf("%s: %v, want the right to be missing", what, err)
		}
	}
	if err := errors.Join(asker.Get(t.Context(), kube.ObjectKeyFromObject(made), made),
		asker.Delete(t.Context(), others)); err != nil {
		t.Errorf("it reads its own, and deletes one by name: %v", err)
	}
	for name, may := range map[string]bool{"asker-everywhere": false, "sessions-viewer": true, "sessions-admin": true} {
		by := w.user(t, name)
		w.eventually(t, name+" makes sessions", func() error {
			return errors.Join(by.Create(t.Context(), session(own, "any"), kube.DryRunAll),
				by.Create(t.Context(), session(mapped, "any"), kube.DryRunAll))
		})
		try := func() error { return by.Create(t.Context(), clusterSession("any"), kube.DryRunAll) }
		if may {
			w.eventually(t, name+" makes one for the cluster", try)
		} else if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("%s makes a session for the cluster: %v", name, err)
		}
	}
}

// A session is of one key for good, of a form that has no two spellings. What its maker says in the agent's place is
// dropped.
func TestKeysOfSessions(t *testing.T) {
	w := start(t)
	w.ourKinds(t)
	w.eventually(t, "the kinds are served", func() error {
		return errors.Join(w.admin.Create(t.Context(), session(own, "probe"), kube.DryRunAll),
			w.admin.Create(t.Context(), clusterSession("probe"), kube.DryRunAll))
	})
	for _, make := range []func(key string) kube.Object{
		func(key string) kube.Object { s := session(own, "keys"); s.Spec.Key = key; return s },
		func(key string) kube.Object { s := clusterSession("keys"); s.Spec.Key = key; return s },
	} {
		for _, key := range []string{"", someKey[1:], someKey + "0", someKey + "\n", strings.ToUpper(someKey),
			strings.Repeat("0g", 32), strings.Repeat("0\n", 32)} {
			if err := w.admin.Create(t.Context(), make(key), kube.DryRunAll); !apierrors.IsInvalid(err) {
				t.Errorf("key %q: %v", key, err)
			}
		}
		made := make(someKey)
		switch o := made.(type) {
		case *api.Session:
			o.Status = api.SessionStatus{ServerKey: someKey, Address: "127.0.0.1:1"}
		case *api.ClusterSession:
			o.Status = api.SessionStatus{ServerKey: someKey, Address: "127.0.0.1:1"}
		}
		if err := w.admin.Create(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = w.admin.Delete(t.Context(), made) }()
		if text := fmt.Sprint(made); strings.Contains(text, "127.0.0.1:1") {
			t.Errorf("a session is made with a status: %s", text)
		}
		for what, patch := range map[string]string{
			"another key": `{"spec":{"key":"` + strings.Repeat("0b", 32) + `"}}`,
			"no key":      `{"spec":{"key":null}}`,
			"an empty":    `{"spec":{"key":""}}`,
			"no spec":     `{"spec":null}`,
		} {
			err := w.admin.Patch(t.Context(), made, kube.RawPatch(types.MergePatchType, []byte(patch)), kube.DryRunAll)
			if !apierrors.IsInvalid(err) {
				t.Errorf("it becomes %s: %v", what, err)
			}
		}
		err := w.admin.Status().Patch(t.Context(), made, kube.RawPatch(types.MergePatchType,
			[]byte(`{"status":{"serverKey":"`+someKey+`","address":"pod:bourse-agent-1:8443","expires":"2026-05-04T12:15:00Z"}}`)))
		if err != nil {
			t.Errorf("the agent answers: %v", err)
		}
	}
}
