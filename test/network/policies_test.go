package network

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// connection is an attempt to reach an address from the network of a pod or node.
type connection struct{ what, from, to string }

// isolates demands that the NetworkPolicies which the guard has written at milan keep rome's pods there to
// themselves. No engine for NetworkPolicies builds from Go modules for this kernel. So this test reads the
// policies from milan's API server, and translates exactly the forms of rules that the guard writes into rules
// of nftables on milan's node. It fails for any other form. Before, it shows that without the policies each
// forbidden connection is possible.
//
// one and other are rome's pods at milan, in two namespaces; home is the address of a pod at rome.
func (w *world) isolates(t *testing.T, one, other *corev1.Pod, home string) {
	t.Helper()
	mine := w.serve(t, w.milan, w.namespace(t, "own", nil), "mine", false)
	stranger := w.serve(t, w.milan, w.namespace(t, "shop-naples", map[string]string{
		"liqo.io/remote-cluster-id": "naples", "bourse.dev/guarded": "true",
	}), "stranger", false)
	dns := w.serve(t, w.milan, metav1.NamespaceSystem, "dns", false)
	w.listens(t, string(dns.UID), "dns", ":53")
	w.listens(t, "node-milan", "node", w.milan.Cluster.NodeAddress()+":8080")
	const private, public = "10.0.2.15", "203.0.113.1" // of the machine; of the internet
	if _, err := w.machine.Run(t.Context(), "/bin/ip address add "+public+"/32 dev lo"); err != nil {
		t.Fatal(err)
	}
	w.listens(t, "", "outside", ":8080")

	at := func(p *corev1.Pod) string { return p.Status.PodIP + ":8080" }
	own, foreign := string(one.UID), string(stranger.UID)
	allowed := []connection{
		{"another pod of the consumer", own, at(other)},
		{"it from another pod of the consumer", string(other.UID), at(one)},
		{"home", own, home + ":8080"},
		{"the internet", own, public + ":8080"},
		{"DNS", own, dns.Status.PodIP + ":53"},
	}
	forbidden := []connection{
		{"the provider's pod", own, at(mine)},
		{"it from the provider's pod", string(mine.UID), at(one)},
		{"another consumer's pod", own, at(stranger)},
		{"it from another consumer's pod", foreign, at(one)},
		{"a private address", own, private + ":8080"},
		{"another port of DNS", own, at(dns)},
		{"its node", own, w.milan.Cluster.NodeAddress() + ":8080"},
	}
	w.each(t, "without the policies", slices.Concat(allowed, forbidden), "")
	if _, err := w.in(t.Context(), "node-milan", "nft -f - <<'END'\n%s\nEND", w.translate(t, w.milan)); err != nil {
		t.Fatal(err)
	}
	w.each(t, "with the policies", allowed, "")
	w.each(t, "with the policies", forbidden, "connection refused")
	if _, err := w.in(t.Context(), "node-milan", "nft delete table inet policies"); err != nil {
		t.Fatal(err)
	}
}

// each tries connections. They must succeed, or fail with an error that contains want. One that times out, as on a
// slow machine, says nothing, and is tried again.
func (w *world) each(t *testing.T, when string, all []connection, want string) {
	t.Helper()
	var tries sync.WaitGroup
	for _, c := range all {
		tries.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			out, err := w.in(ctx, c.from, "get http://%s", c.to)
			for ctx.Err() == nil && err != nil && strings.Contains(err.Error(), "Client.Timeout") {
				out, err = w.in(ctx, c.from, "get http://%s", c.to)
			}
			switch {
			case want == "" && (err != nil || !strings.Contains(out, " answers ")):
				t.Errorf("%s: %s does not answer: %q, %v", when, c.what, out, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("%s: %s says %q, %v", when, c.what, out, err)
			}
		})
	}
	tries.Wait()
}

// namespace makes a namespace at milan, and returns its name.
func (w *world) namespace(t *testing.T, name string, labels map[string]string) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if err := w.milan.Objects.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return name
}

// listens serves HTTP in the network of a pod or node, or in that of the machine, until the machine ends.
func (w *world) listens(t *testing.T, namespace, name, address string) {
	t.Helper()
	enter := ""
	if namespace != "" {
		enter = "nsenter --net=/run/netns/" + namespace
	}
	script := fmt.Sprintf("POD_NAME=%s setsid %s /images/web %s > /run/log/%[1]s.log 2>&1 < /dev/null &",
		name, enter, address)
	if _, err := w.machine.Run(t.Context(), script); err != nil {
		t.Fatal(err)
	}
	eventually(t, name+" listens", func(ctx context.Context) error {
		host, port, err := net.SplitHostPort(address)
		if err == nil {
			_, err = w.machine.Run(ctx, fmt.Sprintf("%s get http://%s:%s", enter, cmp.Or(host, "127.0.0.1"), port))
		}
		return err
	})
}

// translation turns the NetworkPolicies of a cluster into rules of nftables.
type translation struct {
	t     *testing.T
	pods  map[string][]string // addresses of pods, by namespace
	known []corev1.Namespace
	text  strings.Builder
}

func (w *world) translate(t *testing.T, m *federation.Member) string {
	t.Helper()
	tr := &translation{t: t, pods: map[string][]string{}}
	var policies networkingv1.NetworkPolicyList
	var namespaces corev1.NamespaceList
	var pods corev1.PodList
	for _, list := range []kube.ObjectList{&policies, &namespaces, &pods} {
		if err := m.Objects.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	if len(policies.Items) < 2 {
		t.Fatalf("the guard has written %d policies: %+v", len(policies.Items), policies.Items)
	}
	tr.known = namespaces.Items
	for _, p := range pods.Items {
		if !p.Spec.HostNetwork && p.Status.PodIP != "" {
			tr.pods[p.Namespace] = append(tr.pods[p.Namespace], p.Status.PodIP)
		}
	}
	var from, to []string
	tr.text.WriteString("table inet policies {\n")
	for _, p := range policies.Items {
		tr.policy(&p)
		if all := tr.pods[p.Namespace]; len(all) > 0 {
			from = append(from, fmt.Sprintf("ip saddr { %s } jump out-%s", strings.Join(all, ", "), p.Namespace))
			to = append(to, fmt.Sprintf("ip daddr { %s } jump in-%s", strings.Join(all, ", "), p.Namespace))
		}
	}
	for _, hook := range []string{"forward", "input"} { // what a pod sends to its own node is not forwarded
		rules := from
		if hook == "forward" {
			rules = slices.Concat(from, to)
		}
		fmt.Fprintf(&tr.text, "chain %s {\ntype filter hook %[1]s priority 0\nct state established,related accept\n%s\n}\n",
			hook, strings.Join(rules, "\n"))
	}
	tr.text.WriteString("}\n")
	return tr.text.String()
}

// policy writes the chains out-NAMESPACE and in-NAMESPACE: they return for what a policy allows.
func (tr *translation) policy(p *networkingv1.NetworkPolicy) {
	types := slices.Clone(p.Spec.PolicyTypes)
	slices.Sort(types)
	both := []networkingv1.PolicyType{networkingv1.PolicyTypeEgress, networkingv1.PolicyTypeIngress}
	if len(p.Spec.PodSelector.MatchLabels)+len(p.Spec.PodSelector.MatchExpressions) > 0 || !slices.Equal(types, both) {
		tr.t.Fatalf("policy %s/%s has a form that is not known here: %+v", p.Namespace, p.Name, p.Spec)
	}
	fmt.Fprintf(&tr.text, "chain out-%s {\n", p.Namespace)
	for _, r := range p.Spec.Egress {
		tr.rule("daddr", r.To, r.Ports)
	}
	fmt.Fprintf(&tr.text, "reject\n}\nchain in-%s {\n", p.Namespace)
	for _, r := range p.Spec.Ingress {
		tr.rule("saddr", r.From, r.Ports)
	}
	tr.text.WriteString("reject\n}\n")
}

// rule writes what one rule allows: each of its peers, at each of its ports.
func (tr *translation) rule(
	side string, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort,
) {
	matches, at := []string{""}, []string{""}
	if len(peers) > 0 {
		matches = nil
	}
	for _, peer := range peers {
		if m := tr.peer(side, peer); m != "" {
			matches = append(matches, m)
		}
	}
	if len(ports) > 0 {
		at = nil
	}
	for _, port := range ports {
		if port.Protocol == nil || port.Port == nil || port.Port.IntValue() == 0 || port.EndPort != nil {
			tr.t.Fatalf("a port has a form that is not known here: %+v", port)
		}
		at = append(at, fmt.Sprintf("%s dport %d", strings.ToLower(string(*port.Protocol)), port.Port.IntValue()))
	}
	for _, match := range matches {
		for _, port := range at {
			fmt.Fprintln(&tr.text, match, port, "return")
		}
	}
}

// peer is the match of one peer; empty if it selects no pod.
func (tr *translation) peer(side string, p networkingv1.NetworkPolicyPeer) string {
	switch {
	case p.PodSelector == nil && p.IPBlock == nil && p.NamespaceSelector != nil &&
		len(p.NamespaceSelector.MatchExpressions) == 0:
		selects := labels.SelectorFromSet(p.NamespaceSelector.MatchLabels)
		var all []string
		for _, ns := range tr.known {
			if selects.Matches(labels.Set(ns.Labels)) {
				all = append(all, tr.pods[ns.Name]...)
			}
		}
		if len(all) == 0 {
			return ""
		}
		return fmt.Sprintf("ip %s { %s }", side, strings.Join(all, ", "))
	case p.PodSelector == nil && p.NamespaceSelector == nil && p.IPBlock != nil:
		family := "ip"
		if prefix, err := netip.ParsePrefix(p.IPBlock.CIDR); err != nil {
			tr.t.Fatalf("a block has the network %q: %v", p.IPBlock.CIDR, err)
		} else if prefix.Addr().Is6() {
			family = "ip6"
		}
		match := fmt.Sprintf("%s %s %s", family, side, p.IPBlock.CIDR)
		if len(p.IPBlock.Except) > 0 {
			match += fmt.Sprintf(" %s %s != { %s }", family, side, strings.Join(p.IPBlock.Except, ", "))
		}
		return match
	}
	tr.t.Fatalf("a peer has a form that is not known here: %+v", p)
	return ""
}
