package agent_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

// An agent that lost its Secret and its Ledger, as with its namespace, would be born a second time. The doctor says so,
// also before it has a token, until an admin takes the record of the first one away. A restart is no second birth.
func TestASecondBirth(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := startBroker(ctx, t)
	m := f.startMember(t)
	policy := &api.SharingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool}}}}
	if err := m.kube.Create(ctx, policy); err != nil {
		t.Fatal(err)
	}
	records := func() *api.LendingAgent {
		if err := m.kube.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			t.Error(err)
		}
		return policy.Status.Agent
	}
	eventually(t, "the policy records its agent", func() bool { return records() != nil })
	first := *records()
	m.end()
	m.run("")
	eventually(t, "rome is connected again", m.connects)
	m.finds(health.IdentityReplaced, "", false)
	m.end()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: agent.SecretName}}
	if err := m.kube.Delete(ctx, secret); err != nil {
		t.Fatal(err)
	}
	if err := m.kube.DeleteAllOf(ctx, &api.Ledger{}, client.InNamespace(api.Namespace)); err != nil {
		t.Fatal(err)
	}
	m.run("")
	m.finds(health.IdentityReplaced, "/status/agent", true)
	if now := records(); *now != first {
		t.Errorf("it records %+v, want %+v", now, first)
	}
	if err := m.kube.Status().Patch(ctx, policy,
		client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/status/agent"}]`))); err != nil {
		t.Fatal(err)
	}
	m.finds(health.IdentityReplaced, "", false)
	eventually(t, "the policy records the second", func() bool { return records() != nil }) // the doctor knows it before
	if second := records(); second.Fingerprint == first.Fingerprint || second.Ledger == first.Ledger {
		t.Errorf("it records %+v after %+v", second, first)
	}
	m.end()
	cancel()
	if err := <-f.ended; err != nil {
		t.Error(err)
	}
}
