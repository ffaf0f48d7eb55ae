{{- define "muster.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "muster.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := include "muster.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "muster.selectorLabels" -}}
app.kubernetes.io/name: {{ include "muster.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "muster.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "muster.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Metadata that is the same in all objects: takes the name's suffix and the context. */}}
{{- define "muster.metadata" -}}
{{- $context := index . 1 -}}
name: {{ include "muster.fullname" $context }}{{ index . 0 }}
labels:
  {{- include "muster.labels" $context | nindent 2 }}
{{- with $context.Values.additionalAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "muster.serviceAccountName" -}}
{{- default (ternary (include "muster.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name }}
{{- end }}

{{- define "muster.leaseNamespace" -}}
{{- default .Release.Namespace .Values.settings.leaderElectionNamespace }}
{{- end }}

{{- define "muster.image" -}}
{{- with .Values.controller.image }}
{{- .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}

{{- /* Affinity in which terms without a selector mean these pods. */}}
{{- define "muster.affinity" -}}
{{- $affinity := deepCopy .Values.affinity }}
{{- $selector := dict "matchLabels" (include "muster.selectorLabels" . | fromYaml) }}
{{- range $kind := list "podAffinity" "podAntiAffinity" }}
{{- $rules := get $affinity $kind | default dict }}
{{- range get $rules "requiredDuringSchedulingIgnoredDuringExecution" | default list }}
{{- if not (hasKey . "labelSelector") }}{{- $_ := set . "labelSelector" $selector }}{{- end }}
{{- end }}
{{- range get $rules "preferredDuringSchedulingIgnoredDuringExecution" | default list }}
{{- if not (hasKey .podAffinityTerm "labelSelector") }}{{- $_ := set .podAffinityTerm "labelSelector" $selector }}{{- end }}
{{- end }}
{{- end }}
{{- toYaml $affinity }}
{{- end }}

{{- define "muster.spread" -}}
{{- $selector := dict "matchLabels" (include "muster.selectorLabels" . | fromYaml) }}
{{- range deepCopy .Values.topologySpreadConstraints }}
{{- if not (hasKey . "labelSelector") }}{{- $_ := set . "labelSelector" $selector }}{{- end }}
{{ toYaml (list .) }}
{{- end }}
{{- end }}

{{/* "true" if nodes are launched for pods with claims of dynamic resources. A gate alone is enough, as with Karpenter. */}}
{{- define "muster.dra" -}}
{{- $settings := .Values.settings -}}
{{- if or $settings.enableDRA $settings.awsFeatureGates.draNVIDIAGPU $settings.awsFeatureGates.draEFA (eq (toString $settings.ignoreDRARequests) "false") -}}
true
{{- end -}}
{{- end }}
