{{/* What the schema of the values cannot say. Texts quote no URL: it may hold a password. */}}

{{/* "true" on PostgreSQL, "" on SQLite. */}}
{{- define "outrigger.onPostgresql" -}}
{{- if or .Values.controlPlane.database.url .Values.controlPlane.database.existingSecret .Values.postgresql.bundled.enabled }}true{{ end }}
{{- end }}

{{/* "true" when the URL of the Redis holds a password, or is in a Secret already. */}}
{{- define "outrigger.redisIsSecret" -}}
{{- if or .Values.redis.existingSecret (regexMatch "@|[?&](username|password)=" .Values.redis.url) }}true{{ end }}
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
{{- if gt (len (compact (list $database.url $database.existingSecret (ternary "bundled" "" .Values.postgresql.bundled.enabled)))) 1 }}
{{- fail "only one of controlPlane.database.url, controlPlane.database.existingSecret and postgresql.bundled.enabled may be set" }}
{{- end }}
{{- if gt (len (compact (list .Values.redis.url .Values.redis.existingSecret (ternary "bundled" "" .Values.redis.bundled.enabled)))) 1 }}
{{- fail "only one of redis.url, redis.existingSecret and redis.bundled.enabled may be set" }}
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
