{{/* The agent that the policies name. */}}
{{- define "bourse-base.agentNamespace" -}}
{{ (.Values.agent).namespace | default "bourse" }}
{{- end }}
{{- define "bourse-base.agentAccount" -}}
{{ (.Values.agent).serviceAccount | default "bourse-agent" }}
{{- end }}
