// Package charts has what the charts bourse-agent and bourse-broker render by default, as documents of YAML: for the
// namespaces bourse and bourse-broker, with the image bourse:TAG and the host HOST. make generate renders it.
package charts

import _ "embed"

var (
	// AgentRights are the agent's ServiceAccount, its roles, and the Role of users who reach its pods.
	//
	//go:embed rendered/agent-rights.yaml
	AgentRights []byte
	// AgentLiqo are the agent's roles where Liqo is.
	//
	//go:embed rendered/agent-liqo.yaml
	AgentLiqo []byte
	// Agent is its Deployment and its PodDisruptionBudget.
	//
	//go:embed rendered/agent.yaml
	Agent []byte
	// Broker is a Service and a StatefulSet.
	//
	//go:embed rendered/broker.yaml
	Broker []byte
)
