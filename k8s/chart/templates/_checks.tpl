{{/* What the schema of the values cannot say. Texts quote no URL: it may hold a password. */}}

{{/* "true" on PostgreSQL, "" on SQLite. */}}
{{- define "outrigger.onPostgresql" -}}
{{- if or (include "outrigger.databaseIsMade" .) .Values.controlPlane.database.existingSecret }}true{{ end }}
{{- end }}

{{/* "true" when the chart makes the Secret of the database's URL. */}}
{{- define "outrigger.databaseIsMade" -}}
{{- if or .Values.controlPlane.database.url .Values.postgresql.bundled.enabled }}true{{ end }}
{{- end }}

{{/* "true" when the URL of the Redis holds a password, or is in a Secret already. */}}
{{- define "outrigger.redisIsSecret" -}}
{{- if .Values.redis.url }}
{{- if regexMatch "@|[?&](username|password)=" .Values.redis.url }}true{{ end }}
{{- else if not .Values.redis.bundled.enabled }}
{{- if .Values.redis.existingSecret }}true{{ end }}
{{- end }}
{{- end }}

{{- define "outrigger.checkValues" -}}
{{- $database := .Values.controlPlane.database -}}
{{- $scaled := .Values.controlPlane.autoscaling -}}
{{- if not (include "outrigger.onPostgresql" .) }}
{{- if gt (int .Values.controlPlane.replicas) 1 }}
{{- fail (printf "controlPlane.replicas is %d, but SQLite serves one replica only: set controlPlane.database.url (postgresql://USER:PASSWORD@HOST/NAME) or controlPlane.database.existingSecret, or controlPlane.replicas=1" (int .Values.controlPlane.replicas)) }}
{{- end }}
{{- if $scaled.enabled }}
{{- fail "controlPlane.autoscaling.enabled needs PostgreSQL: SQLite serves one replica only; set controlPlane.database.url or controlPlane.database.existingSecret" }}
{{- end }}
{{- end }}
{{- if and $database.url .Values.postgresql.bundled.enabled }}
{{- fail "controlPlane.database.url and postgresql.bundled.enabled exclude each other" }}
{{- end }}
{{- if and .Values.redis.url .Values.redis.bundled.enabled }}
{{- fail "redis.url and redis.bundled.enabled exclude each other" }}
{{- end }}
{{- if contains "@" .Values.controlPlane.prometheusUrl }}
{{- fail "controlPlane.prometheusUrl may hold no password: let the Prometheus be reached without one from the control plane" }}
{{- end }}
{{- if and $database.url (not (regexMatch "^postgres(ql)?://." $database.url)) }}
{{- fail "controlPlane.database.url must begin with postgresql:// (leave it empty for SQLite)" }}
{{- end }}
{{- if and .Values.redis.url (not (regexMatch "^rediss?://." .Values.redis.url)) }}
{{- fail "redis.url must begin with redis:// or rediss://" }}
{{- end }}
{{- if and $scaled.enabled (gt (int $scaled.minReplicas) (int $scaled.maxReplicas)) }}
{{- fail "controlPlane.autoscaling.minReplicas is greater than maxReplicas" }}
{{- end }}
{{- end }}
