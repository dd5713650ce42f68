package lab

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
)

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// services is the script that makes the node send what is for a Service to the Service's endpoints, as
// kube-proxy does: by its address, and by its ports of the node.
func (n *machineNode) services() string {
	services, err := n.see.Core().V1().Services().Lister().List(labels.Everything())
	if err != nil {
		return ""
	}
	var rules []string
	for _, s := range services {
		for _, port := range s.Spec.Ports {
			to := n.endpoints(s, port)
			if len(to) == 0 {
				continue
			}
			protocol := strings.ToLower(string(port.Protocol))
			target := fmt.Sprintf("dnat ip addr . port to numgen random mod %d map { %s }", len(to), strings.Join(to, ", "))
			if s.Spec.ClusterIP != "" && s.Spec.ClusterIP != corev1.ClusterIPNone {
				rules = append(rules, fmt.Sprintf("ip daddr %s %s dport %d %s", s.Spec.ClusterIP, protocol, port.Port, target))
			}
			if port.NodePort != 0 {
				rules = append(rules, fmt.Sprintf("ip daddr %s %s dport %d %s", n.NodeAddress(), protocol, port.NodePort, target))
			}
		}
	}
	slices.Sort(rules)
	// A flow of UDP, such as WireGuard's, would go on to an endpoint that is gone.
	return fmt.Sprintf(`nsenter --net=/run/netns/node-%[1]s nft -f - <<'END'
table ip services
delete table ip services
table ip services {
	chain to {
		type nat hook prerouting priority -100
		%[2]s
	}
}
END
nsenter --net=/run/netns/node-%[1]s conntrack -D -p udp > /run/log/conntrack 2>&1 || true
`, n.name, strings.Join(rules, "\n\t\t"))
}

// endpoints are those of a Service's port that are ready, as elements of a map of nft.
func (n *machineNode) endpoints(s *corev1.Service, port corev1.ServicePort) []string {
	slices_, err := n.see.Discovery().V1().EndpointSlices().Lister().EndpointSlices(s.Namespace).
		List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: s.Name}))
	if err != nil {
		return nil
	}
	var found []string
	for _, slice := range slices_ {
		for _, p := range slice.Ports {
			if p.Port == nil || p.Name != nil && *p.Name != port.Name {
				continue
			}
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					found = append(found, fmt.Sprintf("%s . %d", e.Addresses[0], *p.Port))
				}
			}
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	for i := range found {
		found[i] = fmt.Sprintf("%d : %s", i, found[i])
	}
	return found
}
