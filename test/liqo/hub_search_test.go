package liqo

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// Nothing that a customer can read at the hub with its certificates names a provider, its nodes or
// its addresses. Everything that they may list is searched.
func TestHubHidesItsProviders(t *testing.T) {
	w := start(t)
	w.hub(t, hubLabel)
	upstream := w.upstream(t, "behind")
	a := w.ask(t, w.rome, w.milan, "hidden", amounts("4", "8Gi"))
	a.becomes(api.Active)
	a.run(3, "500m", "64Mi")
	a.running(w.milan, 3)
	guessed := market.SliceName("milan", "paris", api.GeneralPool)
	secrets := []string{"paris", guessed, strings.TrimPrefix(w.paris.Cluster.Config().Host, "https://")}
	var there corev1.PodList
	if err := w.paris.Objects.List(t.Context(), &there, kube.MatchingLabels{"liqo.io/managed-by": "shadowpod"}); err != nil {
		t.Fatal(err)
	}
	for _, p := range there.Items {
		secrets = append(secrets, `"`+p.Status.PodIP+`"`)
	}
	read := 0
	for _, secret := range []string{
		"kubeconfig-controlplane-milan", "kubeconfig-resourceslice-" + market.SliceName("rome", "milan", api.GeneralPool),
	} {
		var s corev1.Secret
		if err := w.rome.Objects.Get(t.Context(), kube.ObjectKey{Namespace: "liqo-tenant-milan", Name: secret}, &s); err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(s.Data["kubeconfig"])
		if err != nil {
			t.Fatal(err)
		}
		config.QPS = -1
		found, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerPreferredResources()
		if err != nil {
			t.Fatal(err)
		}
		c := dynamic.NewForConfigOrDie(config)
		for _, group := range found {
			of, err := schema.ParseGroupVersion(group.GroupVersion)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range group.APIResources {
				if !slices.Contains(r.Verbs, "list") {
					continue
				}
				for _, namespace := range []string{"", "hidden-rome", "liqo-tenant-rome"} {
					list, err := c.Resource(of.WithResource(r.Name)).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
					if err != nil {
						continue // it may not
					}
					for _, o := range list.Items {
						read++
						text, _ := json.Marshal(o.Object)
						for _, secret := range secrets {
							if at := strings.Index(string(text), secret); at >= 0 {
								t.Errorf("%s %s/%s says %s: ...%s...", r.Name, o.GetNamespace(), o.GetName(), secret,
									text[max(0, at-160):min(len(text), at+80)])
							}
						}
					}
				}
			}
		}
	}
	if read < 10 {
		t.Errorf("only %d objects could be read", read)
	}
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
	upstream.release()
	w.nothingLeft(t, w.milan, w.paris)
}
