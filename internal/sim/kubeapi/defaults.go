package kubeapi

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func podDefaults(content map[string]any) { setPhase(content, "Pending") }

func namespaceDefaults(content map[string]any) {
	setPhase(content, "Active")
	_ = unstructured.SetNestedField(content, at(content, "metadata.name"),
		"metadata", "labels", "kubernetes.io/metadata.name")
}

func setPhase(content map[string]any, phase string) {
	if at(content, "status.phase") == "" {
		_ = unstructured.SetNestedField(content, phase, "status", "phase")
	}
}

// secretDefaults moves stringData, which is for writing only, into data.
func secretDefaults(content map[string]any) {
	plain, _, _ := unstructured.NestedStringMap(content, "stringData")
	for key, value := range plain {
		_ = unstructured.SetNestedField(content, base64.StdEncoding.EncodeToString([]byte(value)), "data", key)
	}
	delete(content, "stringData")
	if at(content, "type") == "" {
		content["type"] = "Opaque"
	}
}
