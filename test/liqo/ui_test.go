package liqo

import (
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/cli"
	"github.com/bourse-dev/bourse/test/ui/browser"
)

// A user with the role bourse-requester in one namespace finds, requests, waits until the virtual node is Ready, runs pods
// there, extends and releases, in the web UI alone.
func TestARequesterInTheWebUI(t *testing.T) {
	w := start(t)
	makeNamespace(t, w.rome, "gaias")
	var granted strings.Builder
	root := cli.Root(&granted, &granted)
	root.SetArgs([]string{"auth", "grant", "gaia", "-n", "gaias"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.rome.Cluster.Apply(t.Context(), []byte(granted.String())); err != nil {
		t.Fatal(err)
	}
	v := browser.Visit(t, "rome", w.rome.KubeconfigOf(t, "gaia"), "gaias")
	find := url.Values{"cpu": {"2"}, "memory": {"1Gi"}, "where": {"region == 'it'"}, "namespace": {"gaias"}, "name": {"work"}, "for": {"1h"},
		"offload": {"gaias"}}
	v.See(patience, "/find?"+find.Encode(), "milan")
	v.Create("ResourceRequest gaias/work made", find)
	a := &asked{w, t, w.rome, &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "gaias", Name: "work"}}}
	t.Cleanup(func() {
		if w.rome.Objects.Delete(t.Context(), a.request) == nil {
			w.nothingLeft(t, w.rome, w.milan)
		}
	})
	a.becomes(api.Active)
	v.See(patience, "/requests/gaias/work", "Active")
	a.run(2, "500m", "64Mi")
	a.running(w.milan, 2)
	v.See(patience, "/requests/gaias/work", "<strong>gaias/")
	longer := browser.Seen(*a.request)
	longer.Set("for", "3h")
	v.Act("/requests/gaias/work/extend", "The new end is asked for", longer)
	a.answered("UpToDate")
	a.becomes(api.Active)
	v.Act("/requests/gaias/work/release", "gaias/work is being released", browser.Seen(*a.request))
	a.released()
	w.nothingLeft(t, w.rome, w.milan)
}
