{{/* The image, or a sentence that says what is missing. */}}
{{- define "bourse-agent.image" -}}
{{- $image := .Values.image | default dict }}
{{- if not $image.repository }}
{{- fail "image.repository is empty, and no image of Bourse is published: build one, push it to your registry, and add --set image.repository=REGISTRY/bourse --set image.digest=sha256:... (docs/install.md)" }}
{{- end }}
{{- if $image.digest }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else if $image.tag }}
{{- printf "%s:%s" $image.repository $image.tag }}
{{- else }}
{{- fail (printf "image.digest and image.tag are empty: say which image of %s to run, as --set image.digest=sha256:... (docs/install.md)" $image.repository) }}
{{- end }}
{{- end }}

{{/* The agent's ServiceAccount. */}}
{{- define "bourse-agent.account" -}}
{{ (.Values.serviceAccount).name | default "bourse-agent" }}
{{- end }}

{{/* The connector's port, or a sentence that says what is missing. */}}
{{- define "bourse-agent.connectorPort" -}}
{{- $connector := .Values.connector | default dict }}
{{- $port := int ($connector.port | default 7444) }}
{{- if not $connector.url }}
{{- fail "connector.url is empty: add --set connector.url=https://HOST:PORT, by which other clusters reach the connector" }}
{{- end }}
{{- if and (eq (($connector.service).type | default "LoadBalancer") "NodePort") (or (lt $port 30000) (gt $port 32767)) }}
{{- fail (printf "connector.port is %d, and nodes have no such port: with connector.service.type=NodePort add --set connector.port=30744, or another of 30000 to 32767" $port) }}
{{- end }}
{{- $port }}
{{- end }}

{{/* Documents of YAML, with the agent's namespace and account, Liqo's namespace, and the name of the token's Secret. */}}
{{- define "bourse-agent.rights" -}}
{{- $liqo := (.root.Values.liqo).namespace | default "liqo" }}
{{- $join := (.root.Values.join).existingSecret | default "bourse-join" }}
{{- range splitList "\n---\n" (.root.Files.Get .file) }}
{{- $object := fromYaml . }}
{{- with $object.metadata.namespace }}
{{- $_ := set $object.metadata "namespace" (eq . "liqo" | ternary $liqo $.root.Release.Namespace) }}
{{- end }}
{{- if eq $object.kind "ServiceAccount" }}
{{- $_ := set $object.metadata "name" (include "bourse-agent.account" $.root) }}
{{- end }}
{{- range $object.subjects }}
{{- $_ := set . "namespace" $.root.Release.Namespace }}
{{- $_ := set . "name" (include "bourse-agent.account" $.root) }}
{{- end }}
{{- range $object.rules }}
{{- if has "bourse-join" (.resourceNames | default list) }}
{{- $_ := set . "resourceNames" (list $join) }}
{{- end }}
{{- end }}
---
{{ toYaml $object }}
{{ end }}
{{- end }}
