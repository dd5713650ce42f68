package policies

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The objects in THREAT_MODEL.md have an API server serve the users of peers at a level of their own, and no others.
func TestPeersAreServedApart(t *testing.T) {
	w := start(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "THREAT_MODEL.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)```yaml\n(apiVersion: flowcontrol.*?)```").FindSubmatch(page)
	if shown == nil {
		t.Fatal("THREAT_MODEL.md has no FlowSchema")
	}
	if err := w.cluster.Apply(t.Context(), shown[1]); err != nil {
		t.Fatal(err)
	}
	admin, err := kubernetes.NewForConfig(w.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	const name = "liqo-peers"
	flows := admin.FlowcontrolV1()
	schema, err := flows.FlowSchemas().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	level, err := flows.PriorityLevelConfigurations().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, err := range []error{flows.FlowSchemas().Delete(context.Background(), name, metav1.DeleteOptions{}),
			flows.PriorityLevelConfigurations().Delete(context.Background(), name, metav1.DeleteOptions{})} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	person := account{"person", rest.ImpersonationConfig{UserName: "alice", Groups: []string{"system:authenticated"}}}
	for _, as := range []account{controlPlaneOf("rome"), kubeletOf("rome", user), person} {
		w.eventually(t, "the "+as.name, func() error {
			got := w.servedAs(t, as)
			isApart := got.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) == string(schema.UID) &&
				got.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID) == string(level.UID)
			if isApart == (as.name == person.name) {
				return fmt.Errorf("it is served as %v", got)
			}
			return nil
		})
	}
}

// servedAs returns the headers of an answer to a user.
func (w *world) servedAs(t *testing.T, as account) (headers http.Header) {
	t.Helper()
	config := w.cluster.Config()
	config.Impersonate = as.ImpersonationConfig
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if err == nil {
				headers = answer.Header
			}
			return answer, err
		})
	})
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.CoreV1().ConfigMaps(mapped).List(t.Context(), metav1.ListOptions{}) // a refusal has headers, too
	return headers
}

type roundTrip func(*http.Request) (*http.Response, error)

func (r roundTrip) RoundTrip(in *http.Request) (*http.Response, error) { return r(in) }
