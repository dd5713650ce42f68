package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/test/lab"
)

// agentAtScale measures the real agent's memory beside a large cluster: a real API server, 1,000 nodes, and
// none, then 30,000 pods. Both times the agent starts when everything is there, as it does after an upgrade;
// what it takes once it has come to rest counts. A pod takes what makes the difference.
func agentAtScale(ctx context.Context, b *bench) ([]Figure, error) {
	nodes, pods := 1_000, 30_000
	if b.quick {
		nodes, pods = 100, 3_000
	}
	s := &scale{dir: filepath.Join(b.dir, "agent"), program: filepath.Join(b.dir, "bourse")}
	defer s.stop()
	if err := s.start(ctx, b, nodes); err != nil {
		return nil, err
	}
	empty, _, err := s.rest(ctx, b.lasts(time.Minute), advertises(0))
	if err != nil {
		return nil, err
	}
	say("%d pods ...", pods)
	if err := s.addPods(ctx, pods); err != nil {
		return nil, err
	}
	full, since, err := s.rest(ctx, b.lasts(150*time.Second), advertises(pods))
	if err != nil {
		return nil, err
	}
	requests, err := s.cluster.Requests(since)
	lists := 0
	for _, r := range requests {
		if r.Verb == "list" && strings.HasPrefix(r.UserAgent, "bourse/") {
			lists++
		}
	}
	return []Figure{
		atMost(128, "agent, 1,000 nodes, 30,000 pods: memory (RSS)", full/(1<<20), "MiB"),
		atMost(1024, "agent, memory of a pod", (full-empty)/float64(pods), "B"),
		atMost(0, "agent, LISTs at the API server while at rest", float64(lists), ""),
		plain("agent, 1,000 nodes, no pods: memory (RSS)", empty/(1<<20), "MiB"),
	}, err
}

const clusterName = "scale"

// scale is a large cluster, its broker, and the agent's program.
type scale struct {
	cluster     *lab.Cluster
	stopCluster func()
	broker      *process
	kubeconfig  string
	program     string
	dir         string
}

func (s *scale) start(ctx context.Context, b *bench, nodes int) error {
	err := s.build(ctx)
	if err != nil {
		return err
	}
	if s.cluster, s.stopCluster, err = b.lightCluster(ctx, clusterName); err != nil {
		return err
	}
	s.kubeconfig = s.cluster.Kubeconfig()
	if err := s.addNodes(ctx, nodes); err != nil {
		return err
	}
	s.broker, err = start(ctx, b.orders("agent"))
	return err
}

// build builds the agent's program.
func (s *scale) build(ctx context.Context) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath",
		"-o", s.program, "github.com/bourse-dev/bourse/cmd/bourse")
	build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	return build.Run()
}

const sharing = `
apiVersion: v1
kind: Namespace
metadata: {name: bourse}
---
apiVersion: bourse.dev/v1alpha1
kind: SharingPolicy
metadata: {name: default}
spec: {pools: [{name: general}]}
`

// lightCluster is a real API server that knows our kinds.
func (b *bench) lightCluster(ctx context.Context, name string) (*lab.Cluster, func(), error) {
	dir := filepath.Join(b.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/bourse-dev/bourse").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("where is the module? %w", err)
	}
	l, err := lab.Start(ctx, lab.Options{Dir: filepath.Join(dir, "lab"), Progress: os.Stderr})
	if err != nil {
		return nil, nil, err
	}
	stop := func() { _ = l.Stop() }
	crds := os.DirFS(filepath.Join(strings.TrimSpace(string(module)), "config", "crd"))
	c, err := l.Cluster(ctx, lab.ClusterOptions{Name: name, Light: true, CRDs: crds})
	if err == nil {
		err = c.Apply(ctx, []byte(sharing))
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return c, stop, nil
}

func (s *scale) stop() {
	if s.broker != nil {
		s.broker.stop()
	}
	if s.stopCluster != nil {
		s.stopCluster()
	}
}

// rest runs the agent, and lets it come to rest once known says so. It then looks at the agent for the last third
// of the time: since. It returns the most memory that the agent takes then, in bytes.
func (s *scale) rest(ctx context.Context, lasts time.Duration,
	known func(context.Context, *client.Client) (bool, error)) (memory float64, since time.Time, err error) {
	err = s.withAgent(ctx, func(ctx context.Context, operator *client.Client, agent int) error {
		for is := false; !is; time.Sleep(500 * time.Millisecond) {
			if is, err = known(ctx, operator); err != nil {
				return err
			}
		}
		since = time.Now().Add(lasts * 2 / 3)
		for end := since.Add(lasts / 3); time.Now().Before(end); {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(500 * time.Millisecond):
			}
			now, err := residentBytes(agent)
			if err != nil {
				return err
			}
			if time.Now().After(since) {
				memory = max(memory, now)
			}
		}
		return nil
	})
	return memory, since, err
}

// withAgent runs the agent for as long as do runs. Its context ends with the agent. agent is the process.
func (s *scale) withAgent(ctx context.Context,
	do func(ctx context.Context, operator *client.Client, agent int) error) error {
	operator := client.New("unix://"+s.broker.socket(), nil)
	token, err := operator.CreateToken(ctx, clusterName, time.Hour)
	if err != nil {
		return err
	}
	agent := exec.CommandContext(ctx, s.program, "agent", "--log-level=warn",
		"--cluster-id="+clusterName, "--join="+token.Token,
		"--kubeconfig="+s.kubeconfig, "--identity-dir="+filepath.Join(s.dir,
			"identity"), "--socket="+filepath.Join(s.dir, "agent.sock"))
	agent.Stderr = os.Stderr
	if err := agent.Start(); err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end(fmt.Errorf("the agent ended: %v", agent.Wait()))
	}()
	defer func() { _ = agent.Process.Kill(); <-ended }()
	return do(ctx, operator, agent.Process.Pid)
}

// advertises says whether the broker knows of so many pods.
func advertises(pods int) func(context.Context, *client.Client) (bool, error) {
	return func(ctx context.Context, operator *client.Client) (bool, error) {
		c, err := operator.Cluster(ctx, clusterName)
		if api.CodeOf(err) == api.CodeNotFound {
			return false, context.Cause(ctx)
		}
		pool, shared := c.Payload.Pools[api.GeneralPool]
		taken := pool.Allocated[corev1.ResourceCPU]
		return shared && taken.MilliValue() == int64(pods*podMillis), err
	}
}

// residentBytes is the resident memory of a process.
func residentBytes(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	var kib float64
	_, err = fmt.Sscan(after, &kib)
	return kib * 1024, err
}
