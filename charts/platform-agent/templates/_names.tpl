{{/* What selects the agent's pods; never changes over the life of a release. */}}
{{- define "platform-agent.selectorLabels" -}}
app.kubernetes.io/name: agent
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* What the platform knows the agent's pods by. */}}
{{- define "platform-agent.podLabels" -}}
{{ include "platform-agent.selectorLabels" . }}
app.kubernetes.io/part-of: platform
platform.dev/graph-id: {{ .Values.graphId | quote }}
platform.dev/sandbox: {{ default "none" .Values.runtimeClassName | quote }}
{{- end }}

{{/* Labels of every object. */}}
{{- define "platform-agent.labels" -}}
{{ include "platform-agent.podLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (replace "+" "_" .Chart.Version) | quote }}
{{- end }}

{{- define "platform-agent.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ printf "%s@%s" .repository .digest }}
{{- else -}}
{{ printf "%s:%s" .repository .tag }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Made by the platform's provisioner, in the agent's namespace. */}}
{{- define "platform-agent.credentialsSecret" -}}
{{ printf "%s-credentials" .Release.Name }}
{{- end }}

{{- define "platform-agent.certificatesMap" -}}
{{ printf "%s-trusted-certificates" .Release.Name }}
{{- end }}

{{- define "platform-agent.redisPrefix" -}}
{{ default (printf "aegra:%s" .Values.graphId) .Values.redis.prefix }}
{{- end }}

{{/* True for a front door on the reader's own machine. */}}
{{- define "platform-agent.isLocal" -}}
{{ if regexMatch "(^|\\.)localhost$" .Values.sharedRoute.host }}true{{ end }}
{{- end }}

{{- define "platform-agent.url" -}}
{{- $host := .Values.sharedRoute.host -}}
{{- $guess := ternary (printf "http://%s:8088" $host) (printf "https://%s" $host) (eq (include "platform-agent.isLocal" .) "true") -}}
{{ default $guess .Values.sharedRoute.url | trimSuffix "/" }}
{{- end }}

{{/* The pods of one component of the platform, as a NetworkPolicy's peer: (list $ "gateway"). */}}
{{- define "platform-agent.platformPeer" -}}
{{- $values := (first .).Values -}}
namespaceSelector:
  matchLabels:
    kubernetes.io/metadata.name: {{ $values.platform.namespace | quote }}
podSelector:
  matchLabels:
    app.kubernetes.io/name: {{ last . | quote }}
    app.kubernetes.io/instance: {{ $values.platform.releaseName | quote }}
{{- end }}
