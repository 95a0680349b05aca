{{/* Parts of pods: everything passes PodSecurity "restricted". */}}

{{/* Call with the numeric user. */}}
{{- define "outrigger.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "outrigger.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Call with (dict "root" $ "component" C "values" V): affinity of V, else replicas on different nodes. */}}
{{- define "outrigger.affinity" -}}
{{- if .values.affinity }}
{{- toYaml .values.affinity }}
{{- else if ne .values.antiAffinity "none" }}
podAntiAffinity:
  {{- if eq .values.antiAffinity "required" }}
  requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- include "outrigger.selectorLabels" . | nindent 10 }}
  {{- else }}
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "outrigger.selectorLabels" . | nindent 12 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Call with the part's values. Where each node has a replica already, one has to go before the next can come. */}}
{{- define "outrigger.oneAfterAnother" -}}
type: RollingUpdate
{{- if eq .antiAffinity "required" }}
rollingUpdate: {maxUnavailable: 1, maxSurge: 0}
{{- else }}
rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
{{- end }}
{{- end }}

{{/* Where a pod may run. Call as outrigger.affinity. */}}
{{- define "outrigger.placement" -}}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "outrigger.affinity" . | trim }}
affinity:
  {{- . | nindent 2 }}
{{- end }}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Call with (dict "existing" S "key" K "made" M): the value (base64) that S has under K, else M. */}}
{{- define "outrigger.kept" -}}
{{- $data := dict }}
{{- if .existing }}{{ $data = .existing.data | default dict }}{{ end }}
{{- get $data .key | default (.made | b64enc) }}
{{- end }}
