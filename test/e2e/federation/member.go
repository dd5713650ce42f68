package federation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/charts"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/agent"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/test/lab"
)

// Member is one cluster of the federation.
type Member struct {
	// ClusterOptions say what the cluster is. The CRDs of config/crd are in it in any case.
	lab.ClusterOptions
	// Sharing is its SharingPolicy. Nil: it is only a consumer.
	Sharing *api.Sharing
	// AgentFlags are added to an agent's own, such as --leader-elect, so that several can run.
	AgentFlags []string

	// Cluster and Objects are set by Start: the cluster, and its API as its admin uses it.
	Cluster *lab.Cluster
	Objects kube.WithWatch

	federation *Federation
	connector  string     // address of the first replica's connector
	agents     []*Process // by replica; the last life of each
}

// start starts the cluster and gives it all that an agent needs.
func (m *Member) start(ctx context.Context, f *Federation, l *lab.Lab) (err error) {
	m.federation = f
	m.CRDs = os.DirFS(f.Path("config/crd"))
	if m.Cluster, err = l.Cluster(ctx, m.ClusterOptions); err != nil {
		return err
	}
	if m.Objects, err = kube.NewWithWatch(m.Cluster.Config(), kube.Options{Scheme: scheme.New()}); err != nil {
		return err
	}
	namespace, err := os.ReadFile(f.Path("config/agent/namespace.yaml"))
	if err != nil {
		return err
	}
	manifests := [][]byte{namespace, charts.AgentRights}
	files := []string{"config/rbac/people.yaml", "config/rbac/policies.yaml", "config/distributed-catalog/rights.yaml"}
	if m.Liqo {
		manifests, files = append(manifests, charts.AgentLiqo), append(files, "config/liqo/policies.yaml")
	}
	for _, file := range files {
		text, err := os.ReadFile(f.Path(file))
		if err != nil {
			return err
		}
		manifests = append(manifests, text)
	}
	if err := m.Cluster.Apply(ctx, manifests...); err != nil {
		return err
	}
	if m.Sharing != nil {
		policy := &api.SharingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: *m.Sharing}
		if err := m.Objects.Create(ctx, policy); err != nil {
			return err
		}
	}
	return m.writeKubeconfig(ctx)
}

// writeKubeconfig makes the agent's way into its cluster: its ServiceAccount's token, which lasts
// as long as a lab may.
func (m *Member) writeKubeconfig(ctx context.Context) error {
	lasts := int64((30 * 24 * time.Hour).Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lasts}}
	clients, err := kubernetes.NewForConfig(m.Cluster.Config())
	if err != nil {
		return err
	}
	answer, err := clients.CoreV1().ServiceAccounts(api.Namespace).CreateToken(ctx,
		"bourse-agent", request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	config := m.Cluster.Config()
	config.BearerToken = answer.Status.Token
	return lab.WriteKubeconfig(m.agentKubeconfig(), m.Name, config)
}

// KubeconfigOf writes the kubeconfig of a person, whom the cluster's admin impersonates, and returns its file.
func (m *Member) KubeconfigOf(t testing.TB, person string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(m.Cluster.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = person
	}
	file := filepath.Join(t.TempDir(), person)
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

func (m *Member) agentKubeconfig() string { return filepath.Join(m.Cluster.Dir(), "agent.kubeconfig") }

// join makes a token for the cluster, puts it into the Secret, and starts its first agent. The first member's agent
// gets its token while it runs.
func (m *Member) join(ctx context.Context) error {
	token, err := m.federation.Operator.CreateToken(ctx, m.Name, time.Hour)
	if err != nil {
		return fmt.Errorf("join token for %s: %w", m.Name, err)
	}
	if m != m.federation.Members[0] {
		if err = m.putToken(ctx, token.Token); err == nil {
			_, err = m.StartAgent(0)
		}
		return err
	}
	p, err := m.StartAgent(0)
	if err != nil {
		return err
	}
	if err := await(ctx, p, "the agent of "+m.Name+" waits for its token", func(context.Context) error {
		if !strings.Contains(p.Log(), "waits for a join token") && !strings.Contains(p.Log(), api.ReasonJoinRefused) {
			return errors.New("it does not")
		}
		return nil
	}); err != nil {
		return err
	}
	return m.putToken(ctx, token.Token)
}

// putToken writes the Secret from which the cluster's agents take their token.
func (m *Member) putToken(ctx context.Context, token string) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "bourse-join"},
		Data: map[string][]byte{"token": []byte(token)}}
	if err := m.Objects.Delete(ctx, secret); kube.IgnoreNotFound(err) != nil {
		return err
	}
	secret.ResourceVersion = ""
	return m.Objects.Create(ctx, secret)
}

// JoinAnew makes a cluster a member again that was removed: its agent keeps the keys that others
// have pinned, and gets another certificate.
func (m *Member) JoinAnew(ctx context.Context) error {
	m.agents[0].Kill()
	var identity corev1.Secret
	if err := m.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: agent.SecretName}, &identity); err != nil {
		return err
	}
	delete(identity.Data, corev1.TLSCertKey)
	if err := m.Objects.Update(ctx, &identity); err != nil {
		return err
	}
	if err := m.join(ctx); err != nil {
		return err
	}
	return m.AwaitConnected(ctx)
}

// StartAgent starts an agent of the cluster, as a Deployment would. Replicas count from 0; each has a socket of its own, which only the leader
// serves.
func (m *Member) StartAgent(replica int) (*Process, error) {
	name := "agent"
	if replica > 0 {
		name = fmt.Sprintf("agent-%d", replica)
	}
	args := []string{"--cluster-id", m.Name, "--socket", m.Socket(replica), "--distributed-catalog"}
	if m.connector == "" {
		var err error
		if m.connector, err = freeAddress(); err != nil {
			return nil, err
		}
	}
	if replica == 0 {
		args = append(args, "--connector-listen", m.connector, "--connector-url", "https://"+m.connector)
	}
	p, err := m.RunAgent(name, append(args, m.AgentFlags...)...)
	if err != nil {
		return nil, err
	}
	for len(m.agents) <= replica {
		m.agents = append(m.agents, nil)
	}
	m.agents[replica] = p
	return p, nil
}

// RunAgent runs an agent in the cluster with just these flags, and its log in NAME.log. The caller ends it.
func (m *Member) RunAgent(name string, flags ...string) (*Process, error) {
	return m.runAgent(name, flags, m.federation.crashed)
}

// RunAgentToItsEnd is RunAgent for an agent that will end by itself, perhaps before this returns.
func (m *Member) RunAgentToItsEnd(name string, flags ...string) (*Process, error) {
	return m.runAgent(name, flags, nil)
}

func (m *Member) runAgent(name string, flags []string, crashed func(error)) (*Process, error) {
	args := append([]string{"agent", "--kubeconfig", m.agentKubeconfig(), "--allow-peer-range=127.0.0.0/8"}, flags...)
	return run(name, m.Cluster.Dir(), m.federation.Binary, args, crashed)
}

// Agent is the last life of a replica of the cluster's agent.
func (m *Member) Agent(replica int) *Process { return m.agents[replica] }

// Socket is where the people of the cluster reach a replica of its agent.
func (m *Member) Socket(replica int) string {
	if replica == 0 {
		return filepath.Join(m.federation.dir, m.Name+".sock")
	}
	return filepath.Join(m.federation.dir, fmt.Sprintf("%s-%d.sock", m.Name, replica))
}

// People act as the cluster's admin, and ask a replica of its agent.
func (m *Member) People(replica int) *cluster.Client {
	return cluster.At(client.New("unix://"+m.Socket(replica), nil), m.Objects)
}

// Evict ends what the cluster shows that it lends a consumer, as its admin.
func (m *Member) Evict(ctx context.Context, consumer string) (api.Eviction, error) {
	shown, err := m.People(0).Audit(ctx, consumer)
	if err != nil {
		return api.Eviction{}, err
	}
	return m.People(0).Evict(ctx, shown)
}

// AwaitConnected returns when the first agent is connected to the broker, and the broker has its
// advertisement.
func (m *Member) AwaitConnected(ctx context.Context) error {
	return await(ctx, m.agents[0], "the agent of "+m.Name, func(ctx context.Context) error {
		status, err := m.People(0).Status(ctx)
		switch {
		case err != nil:
			return err
		case !status.Connected:
			return fmt.Errorf("not connected: %s", status.Problem)
		case m.Sharing != nil && !status.Sharing:
			return fmt.Errorf("its SharingPolicy is not in force")
		}
		listed, err := m.federation.Operator.Cluster(ctx, m.Name)
		if err == nil && (!listed.Payload.Fresh || m.Sharing != nil && len(listed.Payload.Pools) == 0) {
			err = fmt.Errorf("the broker has no advertisement")
		}
		return err
	})
}
