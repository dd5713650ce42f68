package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/cli"
	"github.com/bourse-dev/bourse/internal/compat/prototypes"
	"github.com/bourse-dev/bourse/internal/sim"
	simulated "github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// A broker serves members through objects of a real cluster, where it may do what config/kubernetes
// says and no more. Rome comes by the kubeconfig that an operator printed, milan by REST, and they
// trade. Their own clusters are simulated.
func TestKubernetesTransport(t *testing.T) {
	c := brokersCluster(t)
	own, err := c.ServiceAccount(t.Context(), "bourse-broker", "broker")
	if err != nil {
		t.Fatal(err)
	}
	file := kubeconfigFor(t, c, "rome")
	rome := &simulated.Member{Options: sim.Options{Name: "rome", Nodes: 1}, Through: access(t, file, "rome")}
	milan := &simulated.Member{Options: sim.Options{Name: "milan", Nodes: 2, CPU: 8, Memory: 32},
		Sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}}
	ctx, stop := context.WithCancel(t.Context())
	f, err := simulated.StartWith(ctx, t.TempDir(), slog.New(slog.DiscardHandler),
		prototypes.Options{Agents: true, Objects: true, Kubernetes: own}, rome, milan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = f.Stop() })

	eventually(t, "rome asks to be admitted", func(ctx context.Context) error {
		_, err := f.Operator.SetMember(ctx, "rome", "approve")
		return err
	})
	for _, m := range []*simulated.Member{rome, milan} {
		eventually(t, m.Name+" is connected, and the broker has its advertisement", func(ctx context.Context) error {
			s, err := m.People.Status(ctx)
			if err != nil || !s.Connected {
				return fmt.Errorf("connected: %t %s, %v", s.Connected, s.Problem, err)
			}
			listed, err := f.Operator.Cluster(ctx, m.Name)
			if err == nil && (!listed.Payload.Fresh || listed.Payload.Card == "" ||
				m == milan && len(listed.Payload.Pools) == 0) {
				err = fmt.Errorf("%+v", listed.Payload)
			}
			return err
		})
	}
	id := trade(t, rome, milan)

	romes, err := kube.New(access(t, file, "rome").Config, kube.Options{})
	if err != nil {
		t.Fatal(err)
	}
	admin, err := kube.New(c.Config(), kube.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("bound", func(t *testing.T) { milanIsBound(t, c, admin) })
	t.Run("the broker's rights", func(t *testing.T) { theBrokerMayNoMore(t, own, admin) })
	t.Run("the picture", func(t *testing.T) { romeSeesItsReservation(t, romes, id) })
	t.Run("idle", func(t *testing.T) { littleIsWritten(t, c) })
	t.Run("its rights", func(t *testing.T) { romeMayNoMore(t, c, romes, admin) })
	t.Run("the policy", func(t *testing.T) { nobodySpeaksForAnother(t, romes, admin) })
	t.Run("the broker starts again", func(t *testing.T) {
		f.Broker.Stop()
		if err := f.Broker.Start(); err != nil {
			t.Fatal(err)
		}
		trade(t, rome, milan)
	})
	t.Run("revoked", func(t *testing.T) {
		if _, err := f.Operator.SetMember(t.Context(), "rome", "revoke"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "its token is worth nothing", func(ctx context.Context) error {
			if err := romes.List(ctx, kubernetes.List(kubernetes.Reservations),
				kube.InNamespace(kubernetes.Namespace("rome"))); !apierrors.IsUnauthorized(err) {
				return fmt.Errorf("it gets %v", err)
			}
			return nil
		})
		gone := time.Now()
		for time.Since(gone) < 3*time.Second {
			if err := admin.Get(t.Context(), accountOf("rome"), &corev1.ServiceAccount{}); !apierrors.IsNotFound(err) {
				t.Fatalf("its account: %v", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// brokersCluster is a real API server with what config/kubernetes says.
func brokersCluster(t *testing.T) *lab.Cluster {
	t.Helper()
	l := lab.Test(t)
	c, err := l.Cluster(t.Context(), lab.ClusterOptions{Name: "broker", Light: true})
	if err != nil {
		t.Fatal(err)
	}
	source, err := federation.Source()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if code := cli.Main([]string{"broker", "kubeconfig", "rome", "--kubeconfig", c.Kubeconfig()},
		io.Discard, &said); code == 0 || !strings.Contains(said.String(), "kubectl apply -k config/kubernetes") {
		t.Errorf("before anything is applied: exit code %d, %s", code, said.String())
	}
	if err := c.Apply(t.Context(), kustomized(t, filesys.MakeFsOnDisk(),
		filepath.Join(source, "config", "kubernetes"))); err != nil {
		t.Fatal(err)
	}
	guarded(t, c)
	return c
}

// guarded waits until the broker has its rights, and the API server applies the policies of config/kubernetes.
func guarded(t *testing.T, c *lab.Cluster) {
	t.Helper()
	config := c.Config()
	admin, err := kube.New(config, kube.Options{})
	if err != nil {
		t.Fatal(err)
	}
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:bourse-broker:broker",
		Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	broker, err := kube.New(config, kube.Options{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the policies of config/kubernetes are in force", func(ctx context.Context) error {
		err := broker.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "evil"}}, kube.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "'bourse-broker'") {
			return fmt.Errorf("the broker makes any namespace: %w", err)
		}
		u := kubernetes.Object(kubernetes.Reservations, "default", "r-unbound")
		u.Object["spec"] = map[string]any{"requesterID": "rome"}
		if err := admin.Create(ctx, u, kube.DryRunAll); err == nil || !strings.Contains(err.Error(), "'bourse-members'") {
			return fmt.Errorf("a Reservation is made anywhere: %w", err)
		}
		return nil
	})
}

// kubeconfigFor prints one as an admin does.
func kubeconfigFor(t *testing.T, c *lab.Cluster, cluster string) string {
	t.Helper()
	return kubeconfigBy(t, c, c.Kubeconfig(), cluster)
}

// kubeconfigBy prints one as somebody does.
func kubeconfigBy(t *testing.T, c *lab.Cluster, by, cluster string) string {
	t.Helper()
	file := filepath.Join(c.Dir(), cluster+".kubeconfig")
	for range 2 { // repeating it is harmless
		var out, said bytes.Buffer
		if code := cli.Main([]string{"broker", "kubeconfig", cluster, "--kubeconfig", by, "--ttl", "1h"},
			&out, &said); code != 0 {
			t.Fatalf("exit code %d: %s", code, said.String())
		}
		if strings.Contains(out.String(), "client-key") || !strings.Contains(said.String(), "Valid until ") {
			t.Errorf("it printed %s\n%s", out.String(), said.String())
		}
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func access(t *testing.T, file, cluster string) *kubernetes.Access {
	t.Helper()
	a, err := kubernetes.ReadAccess(file, "")
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(a.Ends()); a.Namespace != kubernetes.Namespace(cluster) ||
		left < 50*time.Minute || left > 70*time.Minute {
		t.Errorf("namespace %s, for %s", a.Namespace, left)
	}
	return a
}

// trade reserves at milan for rome's people, and releases it again.
func trade(t *testing.T, rome, milan *simulated.Member) (id string) {
	t.Helper()
	made, err := rome.People.MakeRequest(t.Context(), api.RequestCreate{Request: api.Request{Resources: cpu("2")}})
	if err != nil {
		t.Fatal(err)
	}
	namespace, name, _ := strings.Cut(made.ID, "/")
	eventually(t, "it is Reserved on both sides", func(ctx context.Context) error {
		r, err := rome.People.Request(ctx, namespace, name)
		if err != nil || r.Payload.Status.State != api.Reserved {
			return fmt.Errorf("%+v, %v", r.Payload.Status, err)
		}
		id = r.Payload.Status.Reservation
		theirs, err := milan.People.Reservation(ctx, id)
		if err == nil && theirs.Payload.State != api.Reserved {
			err = fmt.Errorf("milan has it as %s", theirs.Payload.State)
		}
		return err
	})
	if err := rome.People.ReleaseLocally(t.Context(), id, api.Release{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is Released", func(ctx context.Context) error {
		r, err := milan.People.Reservation(ctx, id)
		if err == nil && r.Payload.State != api.Released {
			err = fmt.Errorf("it is %s", r.Payload.State)
		}
		return err
	})
	return id
}

func romeSeesItsReservation(t *testing.T, romes kube.Client, id string) {
	eventually(t, "rome's Reservation shows the end", func(ctx context.Context) error {
		u := kubernetes.Object(kubernetes.Reservations, kubernetes.Namespace("rome"), id)
		if err := romes.Get(ctx, kube.ObjectKeyFromObject(u), u); err != nil {
			return err
		}
		target, _, _ := unstructured.NestedString(u.Object, "spec", "targetClusterID")
		phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		signed, _, _ := unstructured.NestedString(u.Object, "status", "reservation", "acceptance")
		if target != "milan" || phase != "Released" || signed == "" {
			return fmt.Errorf("%v", u.Object)
		}
		return nil
	})
	eventually(t, "rome's ClusterAdvertisement shows that it is a member", func(ctx context.Context) error {
		u := kubernetes.Object(kubernetes.Advertisements, kubernetes.Namespace("rome"), "rome-adv")
		if err := romes.Get(ctx, kube.ObjectKeyFromObject(u), u); err != nil {
			return err
		}
		var s kubernetes.Status
		if err := kubernetes.Part(u, "status", &s); err != nil || s.Member != api.MemberActive ||
			!s.Active || s.Cluster == nil {
			return fmt.Errorf("%+v, %w", s, err)
		}
		return nil
	})
}

// littleIsWritten checks that an idle federation makes nearly no requests. A watch shows every 20 s that it is alive,
// and rome advertises every 30 s. Each takes up to four requests.
func littleIsWritten(t *testing.T, c *lab.Cluster) {
	eventually(t, "it is idle", func(context.Context) error {
		all, err := c.Requests(time.Now().Add(-10 * time.Second))
		if err != nil {
			return err
		}
		var asked []string
		for _, r := range all {
			if strings.HasPrefix(r.User, "system:serviceaccount:bourse-") && r.Verb != "watch" {
				asked = append(asked, fmt.Sprintf("%s: %s %s %s", r.User, r.Verb, r.Resource, r.Name))
			}
		}
		if len(asked) > 8 {
			return fmt.Errorf("in 10s it made %d requests: %v", len(asked), asked)
		}
		return nil
	})
}

// romeMayNoMore tries what config/kubernetes/members.yaml does not allow.
func romeMayNoMore(t *testing.T, c *lab.Cluster, romes, admin kube.Client) {
	ctx, mine, oslos := t.Context(), kubernetes.Namespace("rome"), kubernetes.Namespace("oslo")
	kubeconfigFor(t, c, "oslo")
	eventually(t, "oslo's ClusterAdvertisement is made", func(ctx context.Context) error {
		u := kubernetes.Object(kubernetes.Advertisements, oslos, "oslo-adv")
		return admin.Get(ctx, kube.ObjectKeyFromObject(u), u)
	})
	adv := func(namespace, name string) *unstructured.Unstructured {
		u := kubernetes.Object(kubernetes.Advertisements, namespace, name)
		u.Object["spec"] = map[string]any{"clusterID": strings.TrimSuffix(name, "-adv")}
		return u
	}
	reservation := kubernetes.Object(kubernetes.Reservations, mine, "r-invented")
	reservation.Object["spec"] = map[string]any{"requesterID": "rome"}
	write := kube.RawPatch(types.MergePatchType, []byte(`{"spec":{"clusterName":"x"}}`))
	lie := kube.RawPatch(types.MergePatchType, []byte(`{"status":{"active":true}}`))
	for name, do := range map[string]func() error{
		"read another's advertisement": func() error {
			return romes.Get(ctx, kube.ObjectKey{Namespace: oslos, Name: "oslo-adv"}, adv(oslos, "oslo-adv"))
		},
		"list another's reservations": func() error {
			return romes.List(ctx, kubernetes.List(kubernetes.Reservations), kube.InNamespace(oslos))
		},
		"list all reservations":         func() error { return romes.List(ctx, kubernetes.List(kubernetes.Reservations)) },
		"write another's advertisement": func() error { return romes.Patch(ctx, adv(oslos, "oslo-adv"), write) },
		"make an advertisement":         func() error { return romes.Create(ctx, adv(mine, "more")) },
		"make a reservation":            func() error { return romes.Create(ctx, reservation) },
		"delete its advertisement":      func() error { return romes.Delete(ctx, adv(mine, "rome-adv")) },
		"write its status":              func() error { return romes.Status().Patch(ctx, adv(mine, "rome-adv"), lie) },
		"list namespaces":               func() error { return romes.List(ctx, &corev1.NamespaceList{}) },
		"read Secrets": func() error {
			return romes.List(ctx,
				&corev1.SecretList{}, kube.InNamespace(mine))
		},
	} {
		if err := do(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// nobodySpeaksForAnother tries what config/kubernetes/policy.yaml refuses, to admins of the
// broker's cluster, too.
func nobodySpeaksForAnother(t *testing.T, romes, admin kube.Client) {
	mine := kubernetes.Namespace("rome")
	own := kubernetes.Object(kubernetes.Advertisements, mine, "rome-adv")
	as := func(cluster string) kube.Patch {
		return kube.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"spec":{"clusterID":%q}}`, cluster)))
	}
	if err := romes.Patch(t.Context(), own.DeepCopy(), as("rome")); err != nil {
		t.Errorf("in its own name: %v", err)
	}
	for who, c := range map[string]kube.Client{"rome": romes, "an admin": admin} {
		if err := c.Patch(t.Context(), own.DeepCopy(), as("milan")); err == nil ||
			!strings.Contains(err.Error(), "no cluster speaks for another") {
			t.Errorf("%s, in milan's name: %v", who, err)
		}
	}
	for what, u := range map[string]*unstructured.Unstructured{
		"another name":      kubernetes.Object(kubernetes.Advertisements, mine, "milan-adv"),
		"another namespace": kubernetes.Object(kubernetes.Advertisements, "default", "rome-adv"),
		"others' business":  kubernetes.Object(kubernetes.Reservations, mine, "r-others"),
	} {
		u.Object["spec"] = map[string]any{"clusterID": "rome", "requesterID": "oslo", "targetClusterID": "paris"}
		if err := admin.Create(t.Context(), u); err == nil || !strings.Contains(err.Error(), "bourse-members") {
			t.Errorf("%s: %v", what, err)
		}
	}
	unquoted := kubernetes.Object(kubernetes.Reservations, mine, "by-hand") // as the prototype took it
	unquoted.Object["spec"] = map[string]any{"requesterID": "rome", "requestedResources": map[string]any{"cpu": int64(2)}}
	if err := kube.WithFieldValidation(admin, "Strict").Create(t.Context(), unquoted, kube.DryRunAll); err != nil {
		t.Errorf("cpu: 2, without quotes: %v", err)
	}
	long := kube.RawPatch(types.MergePatchType, []byte(`{"spec":{"calls":{"c":{"method":"GET","path":"/","body":"`+strings.Repeat("x", kubernetes.MaxBody+1)+`"}}}}`))
	if err := romes.Patch(t.Context(), own.DeepCopy(), long); !apierrors.IsInvalid(err) {
		t.Errorf("a call that is too long: %v", err)
	}
}
