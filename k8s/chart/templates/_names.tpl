{{/* Names, labels and images. Each object's name begins with the full name, so that two releases can share a namespace. */}}

{{- define "outrigger.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "outrigger.fullname" -}}
{{- $name := include "outrigger.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Call with (dict "root" $ "component" "control-plane"). */}}
{{- define "outrigger.selectorLabels" -}}
app.kubernetes.io/name: {{ include "outrigger.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Call with (dict "root" $ "component" "control-plane"). */}}
{{- define "outrigger.labels" -}}
{{ include "outrigger.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: outrigger
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Call with (dict "repository" R "tag" T "digest" D). */}}
{{- define "outrigger.imageOf" -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag }}
{{- end }}
{{- end }}

{{- define "outrigger.image" -}}
{{- $image := .Values.image -}}
{{- include "outrigger.imageOf" (dict "repository" $image.repository "tag" ($image.tag | default .Chart.AppVersion) "digest" $image.digest) }}
{{- end }}

{{- define "outrigger.envoyImage" -}}
{{- include "outrigger.imageOf" .Values.sidecar.envoy }}
{{- end }}

{{- define "outrigger.controlPlane" -}}{{ include "outrigger.fullname" . }}-control-plane{{- end }}
{{- define "outrigger.controller" -}}{{ include "outrigger.fullname" . }}-controller{{- end }}
{{- define "outrigger.api" -}}{{ include "outrigger.fullname" . }}-api{{- end }}
{{- define "outrigger.push" -}}{{ include "outrigger.fullname" . }}-push{{- end }}
{{- define "outrigger.webhook" -}}{{ include "outrigger.fullname" . }}-webhook{{- end }}
{{- define "outrigger.redis" -}}{{ include "outrigger.fullname" . }}-redis{{- end }}
{{- define "outrigger.postgresql" -}}{{ include "outrigger.fullname" . }}-postgresql{{- end }}

{{- define "outrigger.adminTokenSecret" -}}
{{- .Values.controlPlane.adminToken.existingSecret | default (printf "%s-admin" (include "outrigger.fullname" .)) }}
{{- end }}

{{- define "outrigger.encryptionSecret" -}}
{{- .Values.controlPlane.encryptionKey.existingSecret | default (printf "%s-encryption" (include "outrigger.fullname" .)) }}
{{- end }}

{{- define "outrigger.databaseSecret" -}}
{{- if include "outrigger.databaseIsMade" . }}
{{- include "outrigger.fullname" . }}-database
{{- else }}
{{- .Values.controlPlane.database.existingSecret }}
{{- end }}
{{- end }}

{{- define "outrigger.redisSecret" -}}
{{- if .Values.redis.url }}
{{- include "outrigger.redis" . }}
{{- else }}
{{- .Values.redis.existingSecret }}
{{- end }}
{{- end }}
