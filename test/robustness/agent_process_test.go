package robustness

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/internal/agent"
	"github.com/bourse-dev/bourse/internal/agent/settings"
	"github.com/bourse-dev/bourse/internal/identity/store"
)

// agentVariable makes this program the agent that the variable describes, in JSON.
const agentVariable = "BOURSE_TEST_AGENT"

// agentOfTest says how an agent runs as a process of its own, beside a simulated API server, and with a simulation in
// place of Liqo.
type agentOfTest struct{ Kubernetes, Join, Broker, Dir, Metrics string }

// runAgent runs the agent that agentVariable describes. It returns the exit code.
func runAgent() int {
	var a agentOfTest
	if err := json.Unmarshal([]byte(os.Getenv(agentVariable)), &a); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	err := agent.Run(ctx, settings.Options{
		Kubernetes: &rest.Config{Host: a.Kubernetes, ContentConfig: rest.ContentConfig{ContentType: "application/json"}},
		Member: settings.Member{
			ClusterID: victimName, Join: a.Join, BrokerURL: a.Broker, Identity: store.InDir(filepath.Join(a.Dir, "identity")),
		},
		Liqo: settings.Liqo{Off: true}, Simulated: settings.Simulated{VirtualNodes: true},
		Peers:  settings.Peers{Ranges: []string{"127.0.0.0/8"}},
		Listen: settings.Listen{Socket: a.socket(), Metrics: a.Metrics}, Log: log,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (a agentOfTest) socket() string { return filepath.Join(a.Dir, "agent.sock") }
