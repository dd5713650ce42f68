// Package config has the manifests that programs of this repository apply.
package config

import "embed"

// AgentNamespace is the namespace of the agent.
//
//go:embed agent/namespace.yaml
var AgentNamespace []byte

// Agent is what config/agent puts into that namespace, as documents of YAML.
//
//go:embed agent/deployment.yaml
var Agent []byte

// Broker is config/broker: a namespace, a Service and a StatefulSet, as documents of YAML.
//
//go:embed broker/broker.yaml
var Broker []byte

// MutatingWebhook and ValidatingWebhook are patches of Liqo's webhook configurations: the API server looks at the
// amounts of a ShadowPod before it calls the webhook.
var (
	//go:embed liqo-webhook/mutating.yaml
	MutatingWebhook []byte
	//go:embed liqo-webhook/validating.yaml
	ValidatingWebhook []byte
)

// Kinds are the CustomResourceDefinitions of Bourse.
//
//go:embed crd/bourse.dev_*.yaml
var Kinds embed.FS
