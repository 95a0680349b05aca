{{/* Everything that the control plane is told, as `env`. */}}
{{- define "outrigger.controlPlaneEnvironment" -}}
{{- $values := .Values.controlPlane -}}
- name: POD_NAME
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
- name: POD_NAMESPACE
  valueFrom:
    fieldRef: {fieldPath: metadata.namespace}
- {name: OUTRIGGER_BIND, value: {{ .Values.bindAddress | quote }}}
- {name: OUTRIGGER_API_PORT, value: "8080"}
- {name: OUTRIGGER_PUSH_PORT, value: "9900"}
- {name: OUTRIGGER_METRICS_PORT, value: "9102"}
- {name: OUTRIGGER_DATA_DIR, value: /var/lib/outrigger}
- name: OUTRIGGER_ADMIN_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ include "outrigger.adminTokenSecret" . }}
      key: token
{{- if include "outrigger.onPostgresql" . }}
- name: OUTRIGGER_DATABASE
  valueFrom:
    secretKeyRef:
      name: {{ include "outrigger.databaseSecret" . }}
      key: url
- name: OUTRIGGER_SECRET_KEY
  valueFrom:
    secretKeyRef:
      name: {{ include "outrigger.encryptionSecret" . }}
      key: key
{{- end }}
{{- with $values.prometheusUrl }}
- {name: OUTRIGGER_PROMETHEUS, value: {{ . | quote }}}
{{- end }}
# Who a sidecar is, its service account's token says.
- {name: OUTRIGGER_TOKEN_REVIEW, value: "true"}
{{- if .Values.webhook.enabled }}
{{ include "outrigger.webhookEnvironment" . }}
{{- end }}
{{- end }}

{{/* What injection needs. */}}
{{- define "outrigger.webhookEnvironment" -}}
- {name: OUTRIGGER_WEBHOOK_PORT, value: "9443"}
- {name: OUTRIGGER_WEBHOOK_NAME, value: {{ include "outrigger.fullname" . }}}
- {name: OUTRIGGER_WEBHOOK_SERVICE, value: {{ include "outrigger.webhook" . }}.{{ .Release.Namespace }}.svc}
{{- if .Values.webhook.certManager.enabled }}
- {name: OUTRIGGER_WEBHOOK_CERT, value: /etc/outrigger/webhook/tls.crt}
- {name: OUTRIGGER_WEBHOOK_KEY, value: /etc/outrigger/webhook/tls.key}
- {name: OUTRIGGER_PUSH_CERT, value: /etc/outrigger/webhook/tls.crt}
- {name: OUTRIGGER_PUSH_KEY, value: /etc/outrigger/webhook/tls.key}
- {name: OUTRIGGER_SIDECAR_CONTROL_PLANE_CA, value: /etc/outrigger/webhook/ca.crt}
{{- else }}
- {name: OUTRIGGER_WEBHOOK_SECRET, value: {{ include "outrigger.webhook" . }}-certificate}
{{- end }}
- {name: OUTRIGGER_SIDECAR_IMAGE, value: {{ include "outrigger.image" . | quote }}}
- {name: OUTRIGGER_ENVOY_IMAGE, value: {{ include "outrigger.envoyImage" . | quote }}}
- {name: OUTRIGGER_IMAGE_PULL_POLICY, value: {{ .Values.image.pullPolicy }}}
- {name: OUTRIGGER_SIDECAR_PROXY_PORT, value: {{ .Values.sidecar.proxyPort | quote }}}
- {name: OUTRIGGER_SIDECAR_CONTROL_PLANE, value: "{{ include "outrigger.push" . }}.{{ .Release.Namespace }}.svc:9900"}
- {name: OUTRIGGER_SIDECAR_MODE, value: {{ .Values.sidecar.mode }}}
- {name: OUTRIGGER_SIDECAR_PROCESSOR_RESOURCES, value: {{ .Values.sidecar.processor.resources | toJson | quote }}}
- {name: OUTRIGGER_SIDECAR_ENVOY_RESOURCES, value: {{ .Values.sidecar.envoy.resources | toJson | quote }}}
{{- with .Values.sidecar.variables }}
- {name: OUTRIGGER_SIDECAR_VARIABLES, value: {{ join "," . | quote }}}
{{- end }}
{{- with .Values.sidecar.imagePullSecrets }}
- {name: OUTRIGGER_SIDECAR_PULL_SECRETS, value: {{ join "," . | quote }}}
{{- end }}
{{- if include "outrigger.redisIsSecret" . }}
- {name: OUTRIGGER_SIDECAR_REDIS_SECRET, value: {{ include "outrigger.redisSecret" . }}}
{{- else if .Values.redis.url }}
- {name: OUTRIGGER_SIDECAR_REDIS, value: {{ .Values.redis.url | quote }}}
{{- else if .Values.redis.bundled.enabled }}
- {name: OUTRIGGER_SIDECAR_REDIS, value: "redis://{{ include "outrigger.redis" . }}.{{ .Release.Namespace }}.svc:6379/0"}
{{- end }}
{{- end }}
