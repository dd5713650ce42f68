package install

import (
	"bytes"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
)

// Init applies what config has. Without answers it changes nothing but the namespace, the image and the host.
func TestInstallationIsConfig(t *testing.T) {
	const config = "../../../../config/"
	objects := func(all []client.Object) map[string]map[string]any {
		out := map[string]map[string]any{}
		for _, o := range all {
			fields, err := Manifest(o)
			if err != nil {
				t.Fatal(err)
			}
			out[fields.GetKind()+" "+fields.GetNamespace()+"/"+fields.GetName()] = fields.Object
		}
		return out
	}
	for name, c := range map[string]struct {
		files []string
		have  []client.Object
	}{
		"agent": {[]string{"agent/namespace.yaml", "agent/deployment.yaml", "rbac/agent.yaml", "rbac/people.yaml", "liqo/peerings.yaml",
			"liqo/consumer.yaml", "liqo/provider.yaml"}, Installation{Namespace: api.Namespace, Image: "bourse", Liqo: true}.Objects()},
		"broker": {[]string{"broker/broker.yaml"}, BrokerInstallation{Namespace: "bourse-broker", Image: "bourse", Port: 7443,
			Hosts: []string{"broker.bourse-broker.svc"}, Service: corev1.ServiceTypeLoadBalancer, Storage: resource.MustParse("10Gi")}.Objects()},
	} {
		var documents [][]byte
		for _, file := range c.files {
			text, err := os.ReadFile(config + file)
			if err != nil {
				t.Fatal(err)
			}
			documents = append(documents, text)
		}
		want := objects(decodeAll(bytes.Join(documents, []byte("\n---\n")), map[string]string{"agent": "bourse", "broker": "bourse-broker"}[name]))
		maps.DeleteFunc(want, func(name string, _ map[string]any) bool { // the base chart has the users' roles
			return strings.HasPrefix(name, "ClusterRole /bourse-") && !strings.HasPrefix(name, "ClusterRole /bourse-agent")
		})
		if diff := cmp.Diff(want, objects(c.have)); diff != "" || len(want) < 3 {
			t.Errorf("config of the %s -, init +\n%s", name, diff)
		}
	}
}

// kubectl apply accepts what init prints: a strict reader reads the same objects back.
func TestManifestsAreReadBack(t *testing.T) {
	i := Installation{Namespace: "elsewhere", Image: "registry.example/bourse:1",
		Liqo: true, Join: "token", Args: []string{"--cluster-id=rome"}, Connector: true,
		Sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool, Percentage: new(int32(50))}}}}
	objects := i.Objects()
	if len(objects) < 12 {
		t.Fatalf("%d objects", len(objects))
	}
	for _, o := range objects {
		fields, err := Manifest(o)
		if err != nil {
			t.Fatal(err)
		}
		data, err := yaml.Marshal(fields.Object)
		if err != nil || strings.Contains(string(data), "null") || fields.GetKind() == "" {
			t.Errorf("%s %v", data, err)
		}
		kind := fields.GroupVersionKind()
		again, err := scheme.New().New(kind)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(data, again); err != nil {
			t.Errorf("%s: %v", data, err)
		}
		o.GetObjectKind().SetGroupVersionKind(kind)
		if diff := cmp.Diff(o, again); diff != "" {
			t.Errorf("%s", diff)
		}
	}
}
