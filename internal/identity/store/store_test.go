package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"
)

// What counts when identities are compared: not the revision, and no part is an empty part.
var options = cmp.Options{cmpopts.IgnoreUnexported(store.Identity{}), cmpopts.EquateEmpty()}

func full() store.Identity {
	return store.Identity{
		TLSKeyPEM: []byte("key\n"), CertPEM: []byte("cert\n"), CAPEM: []byte("ca\n"),
		ClusterKeyPEM: []byte("cluster\n"), Rotations: []string{"first.by.old",
			"second.by.first"}, BrokerURL: "https://broker.example",
	}
}

// Both implementations, as an agent uses them: nothing, keys, everything, a renewal; and a restart.
func TestStores(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "agent")
	secrets := newSecrets()
	for name, open := range map[string]func() store.Store{
		"directory": func() store.Store { return store.InDir(dir) },
		"secret":    func() store.Store { return store.InSecret(secrets, "bourse-identity") },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if _, err := open().Load(ctx); !errors.Is(err, store.ErrNotFound) {
				t.Fatalf("before the first save: %v", err)
			}
			identity := store.Identity{TLSKeyPEM: []byte("key\n"), ClusterKeyPEM: []byte("cluster\n"),
				BrokerURL: "https://broker.example"}
			save(ctx, t, open(), &identity)
			expect(ctx, t, open(), identity)
			identity.CertPEM, identity.CAPEM, identity.Rotations = []byte("cert\n"), []byte("ca\n"), full().Rotations
			save(ctx, t, open(), &identity) // the same value again, without a load between
			expect(ctx, t, open(), full())

			loaded, err := open().Load(ctx)
			if err != nil {
				t.Fatal(err)
			}
			loaded.TLSKeyPEM, loaded.CertPEM = []byte("key2\n"), []byte("cert2\n")
			save(ctx, t, open(), &loaded)
			want := full()
			want.TLSKeyPEM, want.CertPEM = []byte("key2\n"), []byte("cert2\n")
			expect(ctx, t, open(), want)
		})
	}
}

func TestDirectoryIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "agent")
	identity := full()
	save(t.Context(), t, store.InDir(dir), &identity)
	for path, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "identity.json"): 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want mode %o", path, info, err, mode)
		}
	}
}

func TestDamagedDirectoryIsNotAnEmptyOne(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "identity.json"), []byte(`{"tls.key":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.InDir(dir).Load(t.Context()); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("error %v: an agent would make new keys over the old ones", err)
	}
}

func TestSecretIsNotOverwrittenByASecondAgent(t *testing.T) {
	ctx := t.Context()
	s := store.InSecret(newSecrets(), "bourse-identity")
	first, second := full(), full()
	save(ctx, t, s, &first)
	second.ClusterKeyPEM = []byte("another\n")
	if err := s.Save(ctx, &second); !errors.Is(err, store.ErrConflict) {
		t.Errorf("made twice: %v", err)
	}
	second, err := s.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	save(ctx, t, s, &first)
	if err := s.Save(ctx, &second); !errors.Is(err, store.ErrConflict) {
		t.Errorf("saved over what another saved: %v", err)
	}
}

func TestDeletedSecretIsNotMadeAgainUnasked(t *testing.T) {
	ctx := t.Context()
	secrets := newSecrets()
	s := store.InSecret(secrets, "bourse-identity")
	identity := full()
	save(ctx, t, s, &identity)
	if err := secrets.Delete(ctx, "bourse-identity", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(ctx, &identity); !errors.Is(err, store.ErrConflict) {
		t.Errorf("error %v", err)
	}
}

func TestSecretKeepsWhatOthersPutOnIt(t *testing.T) {
	ctx := t.Context()
	secrets := newSecrets()
	s := store.InSecret(secrets, "bourse-identity")
	identity := full()
	save(ctx, t, s, &identity)
	secret, err := secrets.Get(ctx, "bourse-identity", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if secret.Type != corev1.SecretTypeOpaque || secret.Namespace != "bourse" {
		t.Errorf("type %s in namespace %s", secret.Type, secret.Namespace)
	}
	secret.Labels["backup"] = "yes"
	if _, err := secrets.Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	identity, err = s.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	save(ctx, t, s, &identity)
	if secret, err = secrets.Get(ctx, "bourse-identity", metav1.GetOptions{}); err != nil ||
		secret.Labels["backup"] != "yes" {
		t.Errorf("labels %v, %v", secret.Labels, err)
	}
}

func TestAPIErrorsAreNotConflicts(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("*", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("secrets"), "bourse-identity", errors.New("no right"))
	})
	s := store.InSecret(client.CoreV1().Secrets("bourse"), "bourse-identity")
	if _, err := s.Load(t.Context()); !apierrors.IsForbidden(err) || errors.Is(err, store.ErrNotFound) {
		t.Errorf("load: %v", err)
	}
	identity := full()
	if err := s.Save(t.Context(), &identity); !apierrors.IsForbidden(err) || errors.Is(err, store.ErrConflict) {
		t.Errorf("save: %v", err)
	}
}

func TestIdentityPrintsWithoutKeys(t *testing.T) {
	if got := fmt.Sprintf("%+v", full()); strings.Contains(got, "key") || strings.Contains(got, "107") {
		t.Errorf("prints %s", got)
	}
}

func save(ctx context.Context, t *testing.T, s store.Store, identity *store.Identity) {
	t.Helper()
	if err := s.Save(ctx, identity); err != nil {
		t.Fatal(err)
	}
}

func expect(ctx context.Context, t *testing.T, s store.Store, want store.Identity) {
	t.Helper()
	got, err := s.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, options); diff != "" {
		t.Error(diff)
	}
}

// newSecrets is namespace bourse with the compare-and-swap that the fake clientset lacks.
func newSecrets() typedcorev1.SecretInterface {
	client := fake.NewClientset()
	revision := 0
	client.PrependReactor("*", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		written, ok := action.(clienttesting.CreateAction) // an update has the same methods
		if !ok {
			return false, nil, nil
		}
		secret := written.GetObject().(*corev1.Secret)
		current, err := client.Tracker().Get(action.GetResource(), action.GetNamespace(), secret.Name)
		if action.GetVerb() == "update" && err == nil && current.(*corev1.Secret).ResourceVersion != secret.ResourceVersion {
			return true, nil, apierrors.NewConflict(corev1.Resource("secrets"), secret.Name, errors.New("changed"))
		}
		revision++
		secret.ResourceVersion = strconv.Itoa(revision)
		return false, nil, nil
	})
	return client.CoreV1().Secrets("bourse")
}
