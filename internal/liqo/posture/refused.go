package posture

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/liqo"
)

// defaultNamespaces is how many namespaces the policies allow a consumer.
const defaultNamespaces = 64

// reserved are prefixes of namespaces that the policies keep from consumers.
var reserved = []string{"bourse-", "kube-", "liqo-tenant-", "openshift-"}

// Refused says which slices and namespaces of a consumer the policies would refuse. It may have the slices of
// these names, and so many namespaces, 0 for the default. tenant is the namespace of its Tenant. Refused does
// not look at pods. A consumer may have any number of objects: Refused reads no more than it needs.
func (p *Policies) Refused(
	ctx context.Context, consumer, tenant string, named []string, most int,
) (out []string, err error) {
	list := func(list client.ObjectList, most int) error {
		return p.Reader.List(ctx, list, client.InNamespace(tenant), client.Limit(int64(most)),
			client.MatchingLabels{consts.ReplicationStatusLabel: "true"})
	}
	var all authv1beta1.ResourceSliceList
	if err := list(&all, len(named)+1); err != nil { // one more than named: it is not named
		return nil, err
	}
	for _, s := range all.Items {
		class, err := liqo.ClassOf(ctx, p.Reader, &s)
		if err != nil {
			return nil, err
		}
		if class != liqo.Class || !slices.Contains(named, s.Name) {
			out = append(out, fmt.Sprintf("ResourceSlice %s of class %s", s.Name, class))
		}
	}
	var maps offv1beta1.NamespaceMapList
	if err := list(&maps, 2); err != nil { // of two, one has another name
		return nil, err
	}
	for _, m := range maps.Items {
		if m.Name != p.Cluster {
			out = append(out, "NamespaceMap "+m.Name)
		}
		if n := len(m.Spec.DesiredMapping); n > cmp.Or(most, defaultNamespaces) {
			out = append(out, fmt.Sprintf("%d namespaces", n))
		}
		for _, name := range m.Spec.DesiredMapping {
			begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
			if !strings.HasSuffix(name, "-"+consumer) || slices.ContainsFunc(reserved, begins) {
				out = append(out, "namespace "+name)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}
