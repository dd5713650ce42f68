package cli

import (
	"bytes"
	"context"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// lockedBuffer is read while a command writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.String()
}

// A command with --watch shows a change of an object at once, and reads nothing again while nothing changes.
func TestWatchShowsAChangeAtOnce(t *testing.T) {
	defer func(before time.Duration) { askAgain = before }(askAgain)
	askAgain = time.Hour
	served := kubeapi.New(kubeapi.Options{Types: federation.Kinds()})
	server := httptest.NewTLSServer(served.HandlerFor(kubeapi.User{Name: "admin", Token: "all"}))
	defer server.Close()
	config := clientcmdapi.NewConfig()
	config.CurrentContext = "rome"
	config.Clusters["rome"] = &clientcmdapi.Cluster{Server: server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
	config.AuthInfos["rome"] = &clientcmdapi.AuthInfo{Token: "all"}
	config.Contexts["rome"] = &clientcmdapi.Context{Cluster: "rome", AuthInfo: "rome"}
	text, err := clientcmd.Write(*config)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err != nil || os.WriteFile(file, text, 0o600) != nil {
		t.Fatal(err)
	}
	objects, err := cluster.NewObjects(served.Config())
	if err != nil {
		t.Fatal(err)
	}
	pool := func(name string) {
		t.Helper()
		o := &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		o.Spec.Namespaces, o.Spec.Max = []string{"team"}, api.Resources{"cpu": resource.MustParse("4")}
		if err := objects.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out, progress lockedBuffer
	root := Root(&out, &progress)
	root.SetArgs([]string{"vnp", "--watch", "--kubeconfig", file})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	shows := func(what string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !strings.Contains(out.text(), what); time.Sleep(10 * time.Millisecond) {
			select {
			case err := <-ended:
				t.Fatalf("it ended: %v", err)
			default:
			}
			if time.Now().After(end) {
				t.Fatalf("it does not show %s: %s%s", what, out.text(), progress.text())
			}
		}
	}
	pool("first")
	shows("first ")
	pool("other")
	shows("other ")
	if n := strings.Count(out.text(), "first "); n != 1 {
		t.Errorf("what did not change is shown %d times", n)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
