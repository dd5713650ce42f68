package lab

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// The programs of Liqo's network. Its IPAM is a process as the other daemons are; the others are
// containers of pods, in a machine.
const (
	LiqoIPAM    Daemon = "liqo-ipam"
	liqoFabric  Daemon = "liqo-fabric"
	liqoGateway Daemon = "liqo-gateway"
	liqoGeneve  Daemon = "liqo-gateway-geneve"
	liqoTunnel  Daemon = "liqo-gateway-wireguard"
)

var liqoNetworkPrograms = []program{
	{liqoFabric, "github.com/liqotech/liqo/cmd/fabric"},
	{liqoGateway, "github.com/liqotech/liqo/cmd/gateway"},
	{liqoGeneve, "github.com/liqotech/liqo/cmd/gateway/geneve"},
	{liqoTunnel, "github.com/liqotech/liqo/cmd/gateway/wireguard"},
}

func buildLiqoNetwork(ctx context.Context, progress io.Writer) (Binaries, error) {
	return build(ctx, progress, liqoModule, slices.Concat(liqoNetworkPrograms, liqoPrograms))
}

// inMachine are the programs that pods of a machine run.
var inMachine = []Daemon{
	liqoFabric, liqoGateway, liqoGeneve, liqoTunnel, LiqoProxy,
	LiqoVirtualKubelet, LiqoControllerManager, LiqoCRDReplicator,
}

// chartValues are those of Liqo's chart for this cluster. Gateways report a broken tunnel after seconds.
func (c *Cluster) chartValues() string {
	return fmt.Sprintf(`
ipam: {podCIDR: %s, serviceCIDR: 10.100.0.0/16}
networking: {gatewayTemplates: {ping: {interval: 500ms, updateStatusInterval: 1s}}}
proxy: {pod: {extraArgs: ["--force-host=%s:%d"]}}
`, c.podCIDR(), hostFromMachine, c.port.number)
}

// networking are the objects of Liqo's network, as the chart has them.
func (c *Cluster) networking(from *chart) ([][]byte, error) {
	var all [][]byte
	for _, name := range []string{
		"liqo-fabric-rbac", "liqo-fabric-daemonset", "liqo-gateway-rbac", "liqo-gw-mssclamp-firewallconfiguration",
		"liqo-ipam-networks", "liqo-proxy-service", "liqo-proxy-deployment",
		"liqo-controller-manager-rbac", "liqo-crd-replicator-rbac", "liqo-remote-controlplane-rbac",
		"liqo-wireguard-gateway-client-template", "liqo-wireguard-gateway-server-template",
	} {
		text, err := from.render(name + ".yaml")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		objects, err := decode([][]byte{text})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, o := range objects {
			if !strings.HasPrefix(o.GetKind(), "ClusterRole") {
				o.SetNamespace(LiqoNamespace)
			}
			encoded, err := o.MarshalJSON()
			if err != nil {
				return nil, err
			}
			all = append(all, encoded)
		}
	}
	return all, nil
}

// networkFlags are what the controller manager has besides, for a network.
func (c *Cluster) networkFlags() []string {
	return []string{
		"--networking-enabled=true",
		fmt.Sprintf("--ipam-server=127.0.0.1:%d", c.liqo.ipam),
		"--geneve-port=6091",
		"--gateway-server-resources=networking.liqo.io/v1beta1/wggatewayservers",
		"--gateway-client-resources=networking.liqo.io/v1beta1/wggatewayclients",
		"--global-labels=liqo.io/managed=true",
	}
}
