// Package config has the manifests that programs of this repository apply.
package config

import "embed"

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
