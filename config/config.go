// Package config has the manifests that programs of this repository apply.
package config

import _ "embed"

// AgentNamespace is the namespace of the agent.
//
//go:embed agent/namespace.yaml
var AgentNamespace []byte

// Agent is what config/agent puts into that namespace, as documents of YAML.
//
//go:embed agent/deployment.yaml
var Agent []byte
