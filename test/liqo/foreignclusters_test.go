package liqo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// catalogued is a cluster as liqo-broker's /api/clusters shows it.
type catalogued struct {
	Kind     string
	Metadata struct{ Name, UID string }
	Spec     struct {
		ClusterIdentity                   struct{ ClusterID, ClusterName string }
		NetworkingEnabled, ForeignAuthURL string
	}
	Status liqov1beta1.ForeignClusterStatus
}

// listsForeignClusters checks that a broker in a consumer's cluster, with the rights of
// config/catalog alone, lists the ForeignCluster that Liqo has there of a provider.
func (w *world) listsForeignClusters(t *testing.T, consumer, provider *federation.Member) {
	t.Helper()
	catalog := w.catalogIn(t, consumer)
	eventually(t, "the catalog in "+consumer.Name+" has "+provider.Name, func(ctx context.Context) error {
		var known liqov1beta1.ForeignCluster
		if err := consumer.Objects.Get(ctx, kube.ObjectKey{Name: provider.Name}, &known); err != nil {
			return err
		}
		all, err := catalog(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(c catalogued) bool { return c.Metadata.Name == provider.Name })
		if i < 0 {
			return fmt.Errorf("it has %+v", all)
		}
		is, at := all[i], provider.Cluster.Config().Host
		if is.Kind != "ForeignCluster" || is.Metadata.UID != string(known.UID) ||
			is.Spec.ClusterIdentity.ClusterID != provider.Name || is.Spec.ClusterIdentity.ClusterName != provider.Name ||
			is.Spec.ForeignAuthURL != at || is.Spec.NetworkingEnabled != "No" || // Liqo runs without its network here
			is.Status.Role != liqov1beta1.ProviderRole || !is.Status.Modules.Offloading.Enabled ||
			!equality.Semantic.DeepEqual(is.Status, known.Status) {
			return fmt.Errorf("it shows %+v, Liqo %+v", is, known)
		}
		return nil
	})
}

// catalogIn starts a broker in a cluster, with liqo-broker's catalog, and returns what reads it.
func (w *world) catalogIn(t *testing.T, m *federation.Member) func(context.Context) ([]catalogued, error) {
	t.Helper()
	rights, err := os.ReadFile(w.Path("config/catalog/rights.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	namespace := []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: bourse-broker}\n")
	if err := m.Cluster.Apply(t.Context(), namespace, rights); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		named := metav1.ObjectMeta{Name: "bourse-broker-catalog"}
		for _, o := range []kube.Object{
			&rbacv1.ClusterRoleBinding{ObjectMeta: named}, &rbacv1.ClusterRole{ObjectMeta: named},
		} {
			if err := m.Objects.Delete(context.Background(), o); kube.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		}
	})
	config, err := m.Cluster.ServiceAccount(t.Context(), "bourse-broker", "broker")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	kubeconfig, socket := filepath.Join(dir, "kubeconfig"), filepath.Join(w.lab.Dir(), m.Name+"-catalog.sock")
	if err := lab.WriteKubeconfig(kubeconfig, m.Name, config); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, w.Binary, "broker", "--dir", "broker", "--listen", "127.0.0.1:0", "--socket", socket,
		"--with-catalog", "--kubeconfig", kubeconfig)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, []string{"HOME=" + dir}, &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the broker in %s said:\n%s", m.Name, &log)
		}
	})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return func(ctx context.Context) (all []catalogued, err error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://broker/api/clusters", nil)
		if err != nil {
			return nil, err
		}
		answer, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		data, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = errors.New(string(data))
		}
		if err == nil {
			err = json.Unmarshal(data, &all)
		}
		return all, err
	}
}
