{{/* The image, or a sentence that says what is missing. */}}
{{- define "bourse-broker.image" -}}
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

{{/* The port, or a sentence that says why it is none. */}}
{{- define "bourse-broker.port" -}}
{{- $port := int ((.Values.broker).port | default 7443) }}
{{- if and (eq ((.Values.service).type | default "LoadBalancer") "NodePort") (or (lt $port 30000) (gt $port 32767)) }}
{{- fail (printf "broker.port is %d, and nodes have no such port: with service.type=NodePort add --set broker.port=30743, or another of 30000 to 32767" $port) }}
{{- end }}
{{- $port }}
{{- end }}

{{/* Whether the broker asks the API server of its cluster: for its members' objects, or for the clusters of Liqo. */}}
{{- define "bourse-broker.asksItsCluster" -}}
{{- if or (.Values.broker).catalog (has ((.Values.broker).interface | default "") (list "kubernetes" "both")) }}yes{{ end }}
{{- end }}
