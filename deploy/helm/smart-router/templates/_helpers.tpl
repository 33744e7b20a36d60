{{- define "smart-router.name" -}}
{{ .Values.fullnameOverride | default .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "smart-router.labels" -}}
app: {{ include "smart-router.name" . }}
app.kubernetes.io/name: smart-router
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "smart-router.selector" -}}
app: {{ include "smart-router.name" . }}
{{- end }}

{{- define "smart-router.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion | replace "+" "-" }}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "smart-router.agentSelector" -}}
{{- $labels := list -}}
{{- range $name, $value := .Values.agents.labels -}}
{{- $labels = append $labels (printf "%s=%s" $name $value) -}}
{{- end -}}
{{ join "," $labels }}
{{- end }}

{{/* The router exits by itself before Kubernetes kills it: SHUTDOWN_DELAY, its streams, its requests, and some rest. */}}
{{- define "smart-router.graceSeconds" -}}
{{- with .Values.stopping -}}
{{ add .delaySeconds (.drainSeconds | default .callMaxSeconds) .requestSeconds 60 }}
{{- end -}}
{{- end }}

{{/* The settings that have values of their own, so that nobody can set them twice. */}}
{{- define "smart-router.ownSettings" -}}
POD_NAME NAMESPACE POD_SOURCE POD_LABEL_SELECTOR VOICE_AGENT_PORT VOICE_AGENT_CONTAINER MARK_BUSY_PODS
LEADER_ELECTION_LOCK_NAME LEADER_ELECTION_NAMESPACE SHUTDOWN_DELAY CALL_MAX_DURATION GATEWAY_DRAIN_TIMEOUT
HTTP_SHUTDOWN_TIMEOUT HTTP_PORT METRICS_PORT TLS_PORT TLS_CERT_FILE TLS_KEY_FILE
{{- end }}

{{- define "smart-router.checkSettings" -}}
{{- $own := splitList " " (include "smart-router.ownSettings" . | replace "\n" " ") -}}
{{- range $name, $value := .Values.settings -}}
{{- if has $name $own -}}
{{- fail (printf "settings.%s: the chart sets it itself; see docs/KUBERNETES.md for the value that does" $name) -}}
{{- end -}}
{{- if hasKey $.Values.secret.keys (trimSuffix "_FILE" $name) -}}
{{- fail (printf "settings.%s: this is a secret; it belongs into the Secret, and its key into secret.keys" $name) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "smart-router.agentPeer" -}}
podSelector:
  matchLabels:
    {{- toYaml .Values.agents.labels | nindent 4 }}
{{- with .Values.agents.namespace }}
namespaceSelector:
  matchLabels:
    kubernetes.io/metadata.name: {{ . }}
{{- end }}
{{- end }}
