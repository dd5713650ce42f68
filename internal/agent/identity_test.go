package agent_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	bourse "github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/agent"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/agent/settings"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// member is the cluster rome, whose agent keeps its identity in a Secret. Its agent has one life after the other.
type member struct {
	t      *testing.T
	api    *kubeapi.API
	kube   client.Client
	people *bourse.Client
	socket string
	stop   context.CancelFunc
	ended  chan error
}

// startMember runs rome's agent as a member of the federation's broker, and waits until it is connected.
func (f *federation) startMember(t *testing.T) *member {
	t.Helper()
	m := &member{t: t, api: kubeapi.New(kubeapi.Options{Types: kinds()}), socket: filepath.Join(f.dir, "rome.sock")}
	m.people = bourse.New("unix://"+m.socket, nil)
	var err error
	if m.kube, err = client.New(m.api.Config(), client.Options{Scheme: scheme.New()}); err != nil {
		t.Fatal(err)
	}
	token, err := f.operator.CreateToken(t.Context(), "rome", 0)
	if err != nil {
		t.Fatal(err)
	}
	m.run(token.Token)
	eventually(t, "rome is connected", m.connects)
	return m
}

// run begins a life of the agent.
func (m *member) run(token string) {
	ctx, stop := context.WithCancel(m.t.Context())
	m.stop, m.ended = stop, make(chan error, 1)
	go func() {
		m.ended <- agent.Run(ctx, settings.Options{Kubernetes: m.api.Config(), Log: logger(),
			Member: settings.Member{ClusterID: "rome", Join: token}, Listen: settings.Listen{Socket: m.socket}})
	}()
}

// end ends a life of the agent.
func (m *member) end() {
	m.t.Helper()
	m.stop()
	if err := <-m.ended; err != nil {
		m.t.Fatal(err)
	}
}

func (m *member) connects() bool {
	s, err := m.people.Status(m.t.Context())
	return err == nil && s.Connected
}

// finds waits until the doctor finds a problem whose remedy has a text, or does not any more.
func (m *member) finds(kind health.Kind, remedy string, want bool) {
	m.t.Helper()
	eventually(m.t, "the doctor is asked for "+kind.Code, func() bool {
		d, err := m.people.Diagnose(m.t.Context())
		return err == nil && want == slices.ContainsFunc(d.Problems, func(p api.Problem) bool {
			return p.Code == kind.Code && strings.Contains(p.Remedy, remedy)
		})
	})
}

func (m *member) patch(o client.Object, kind types.PatchType, patch string) {
	m.t.Helper()
	if err := m.kube.Patch(m.t.Context(), o, client.RawPatch(kind, []byte(patch))); err != nil {
		m.t.Fatal(err)
	}
}

// The agent of a clone, whose identity was made in another cluster, runs and answers. It connects to nobody. The doctor
// and the Broker object name the reason. It connects, without a restart, once an admin takes the record away.
func TestAClone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := startBroker(ctx, t)
	m := f.startMember(t)
	m.end()
	identity := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: agent.SecretName}}
	m.patch(identity, types.MergePatchType, `{"data":{"kube-system-uid":"ZWxzZXdoZXJl"}}`)
	m.run("")
	m.finds(health.ClonedIdentity, "/data/kube-system-uid", true)
	eventually(t, "its Broker object says so", func() bool {
		var main api.Broker
		if err := m.kube.Get(ctx, client.ObjectKey{Namespace: api.Namespace, Name: api.MainBroker}, &main); err != nil {
			return false
		}
		c := meta.FindStatusCondition(main.Status.Conditions, api.ConditionConnected)
		return c != nil && c.Reason == api.ReasonClonedIdentity
	})
	if m.connects() {
		t.Error("a clone is connected")
	}
	m.patch(identity, types.JSONPatchType, `[{"op":"remove","path":"/data/kube-system-uid"}]`)
	eventually(t, "rome is connected after a deliberate move", m.connects)
	m.end()
	cancel()
	if err := <-f.ended; err != nil {
		t.Error(err)
	}
}

// An agent that lost its Secret and its Ledger, as with its namespace, is born a second time. The doctor says so, also
// in a cluster that only borrows and before there is a token, until an admin deletes the record of the first one. A
// restart is no second birth.
func TestASecondBirth(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := startBroker(ctx, t)
	m := f.startMember(t)
	first := *m.recorded()
	if first.Cluster != "rome" || first.Namespace != api.Namespace || first.Version != bourse.Version() {
		t.Errorf("it records %+v", first)
	}
	m.restart("")
	eventually(t, "rome is connected again", m.connects)
	m.finds(health.IdentityReplaced, "", false)
	m.losesAll()
	m.run("") // and waits for a token
	m.finds(health.WaitsForToken, "", true)
	m.finds(health.IdentityReplaced, acceptance, true)
	m.restart("")
	m.finds(health.IdentityReplaced, acceptance, true)
	if now := *m.recorded(); now != first {
		t.Errorf("it records %+v, want %+v", now, first)
	}
	m.acceptsAgent()
	if second := *m.recorded(); second.Fingerprint == first.Fingerprint || second.Ledger == first.Ledger {
		t.Errorf("it records %+v after %+v", second, first)
	}
	m.end()
	cancel()
	if err := <-f.ended; err != nil {
		t.Error(err)
	}
}

// A deliberate move, to another namespace or from another cluster, is no second birth: the key and the Ledger came along.
// A record that names no agent is filled in.
func TestAMoveIsNoSecondBirth(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := startBroker(ctx, t)
	m := f.startMember(t)
	first := *m.recorded()
	m.end()
	object := &api.Agent{ObjectMeta: metav1.ObjectMeta{Name: api.AgentName}}
	for _, change := range []string{`{"status":null}`, `{"status":{"namespace":"elsewhere","version":"former","cluster":null}}`} {
		if err := m.kube.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(change))); err != nil {
			t.Fatal(err)
		}
		m.run("")
		m.finds(health.IdentityReplaced, "", false)
		if now := *m.recorded(); now != first {
			t.Errorf("after %s it records %+v, want %+v", change, now, first)
		}
		m.end()
	}
	identity := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: agent.SecretName}}
	m.patch(identity, types.MergePatchType, `{"data":{"kube-system-uid":"ZWxzZXdoZXJl"}}`)
	if err := m.kube.Delete(ctx, object); err != nil { // the namespace alone is moved
		t.Fatal(err)
	}
	m.run("")
	m.finds(health.ClonedIdentity, "", true)
	if err := m.kube.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
		t.Errorf("a clone is recorded: %+v, %v", object.Status, err)
	}
	m.patch(identity, types.JSONPatchType, `[{"op":"remove","path":"/data/kube-system-uid"}]`)
	eventually(t, "rome is connected after the move", m.connects)
	m.finds(health.IdentityReplaced, "", false)
	if now := *m.recorded(); now != first {
		t.Errorf("after the move it records %+v, want %+v", now, first)
	}
	m.end()
	cancel()
	if err := <-f.ended; err != nil {
		t.Error(err)
	}
}

// acceptance is the command by which an admin accepts an agent in place of the one before.
const acceptance = "kubectl delete agents.bourse.dev default"

// acceptsAgent has an admin accept the agent that runs, and waits until it is recorded.
func (m *member) acceptsAgent() {
	m.t.Helper()
	if err := m.kube.Delete(m.t.Context(), &api.Agent{ObjectMeta: metav1.ObjectMeta{Name: api.AgentName}}); err != nil {
		m.t.Fatal(err)
	}
	m.finds(health.IdentityReplaced, "", false)
}

// recorded waits until an agent is recorded, and returns it.
func (m *member) recorded() *api.RecordedAgent {
	m.t.Helper()
	object := &api.Agent{ObjectMeta: metav1.ObjectMeta{Name: api.AgentName}}
	eventually(m.t, "an agent is recorded", func() bool {
		return m.kube.Get(m.t.Context(), client.ObjectKeyFromObject(object), object) == nil && object.Status != (api.RecordedAgent{})
	})
	return &object.Status
}

func (m *member) restart(token string) {
	m.t.Helper()
	m.end()
	m.run(token)
}

// losesAll ends a life of the agent, and all that it kept in its namespace.
func (m *member) losesAll() {
	m.t.Helper()
	m.end()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: agent.SecretName}}
	if err := m.kube.Delete(m.t.Context(), secret); err != nil {
		m.t.Fatal(err)
	}
	if err := m.kube.DeleteAllOf(m.t.Context(), &api.Ledger{}, client.InNamespace(api.Namespace)); err != nil {
		m.t.Fatal(err)
	}
}
