{{- define "backstay.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{/* At most 50 characters, so that suffixes still fit into a name's 63. */}}
{{- define "backstay.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "backstay.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "backstay.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "backstay.selectorLabels" -}}
app.kubernetes.io/name: {{ include "backstay.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{/* "helm" installs these objects, so managed-by says so: "backstay" marks what the operator made. */}}
{{- define "backstay.labels" -}}
{{ include "backstay.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "backstay.serviceAccountName" -}}
{{- default (include "backstay.fullname" .) .Values.serviceAccount.name }}
{{- end }}

{{- define "backstay.controlSecret" -}}
{{- default (printf "%s-control" (include "backstay.fullname" .)) .Values.control.existingSecret }}
{{- end }}

{{/* Called with (dict "image" IMAGE "root" $). */}}
{{- define "backstay.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ default .root.Chart.AppVersion .image.tag }}
{{- end -}}
{{- end }}

{{- define "backstay.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "backstay.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* What the operator may do in the namespaces that it watches, and nothing more: no rule names Secrets. */}}
{{- define "backstay.rules" -}}
- apiGroups: [backstay.dev]
  resources: [modeldeployments]
  verbs: [get, list, watch, patch]
- apiGroups: [backstay.dev]
  resources: [modeldeployments/status]
  verbs: [get, patch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
{{- if and .Values.capacityCheck.enabled (empty .Values.watchNamespaces) }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list]
{{- end }}
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [list, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, create, patch, delete]
- apiGroups: [monitoring.coreos.com]
  resources: [podmonitors, prometheusrules]
  verbs: [get, list, create, patch, delete]
{{- end }}

{{/* What the operator makes beside each resource's pods, as its setting takes it. */}}
{{- define "backstay.companions" -}}
{{- $out := dict "disruptionBudget" nil }}
{{- with .Values.models.disruptionBudget }}
{{- if .enabled }}
{{- $_ := set $out "disruptionBudget" (omit . "enabled") }}
{{- end }}
{{- end }}
{{- with .Values.models.networkPolicy }}
{{- if .enabled }}
{{- $operator := dict "namespace" $.Release.Namespace "labels" (include "backstay.selectorLabels" $ | fromYaml) }}
{{- $_ := set $out "networkPolicy" (dict "operator" $operator "clients" .clients) }}
{{- end }}
{{- end }}
{{- with .Values.models.podMonitor }}
{{- if .enabled }}
{{- $_ := set $out "podMonitor" (omit . "enabled") }}
{{- end }}
{{- end }}
{{- with .Values.models.prometheusRule }}
{{- if .enabled }}
{{- $_ := set $out "prometheusRule" (omit . "enabled") }}
{{- end }}
{{- end }}
{{- toJson $out }}
{{- end }}

{{/* What the uninstall hook may do: find the resources and take the finalizers off. */}}
{{- define "backstay.releaseRules" -}}
- apiGroups: [backstay.dev]
  resources: [modeldeployments]
  verbs: [get, list, patch]
{{- end }}

{{/*
A ClusterRole and its binding, or a Role and binding in each watched namespace.
Called with (dict "root" $ "name" NAME "account" SERVICEACCOUNT "rules" RULES "annotations" ANNOTATIONS).
*/}}
{{- define "backstay.grant" -}}
{{- $all := empty .root.Values.watchNamespaces }}
{{- range $namespace := ternary (list "") .root.Values.watchNamespaces $all }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "ClusterRole" "Role" $all }}
metadata:
  name: {{ $.name }}
  {{- if not $all }}
  namespace: {{ $namespace }}
  {{- end }}
  labels:
    {{- include "backstay.labels" $.root | nindent 4 }}
  {{- with $.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
rules:
  {{- $.rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "ClusterRoleBinding" "RoleBinding" $all }}
metadata:
  name: {{ $.name }}
  {{- if not $all }}
  namespace: {{ $namespace }}
  {{- end }}
  labels:
    {{- include "backstay.labels" $.root | nindent 4 }}
  {{- with $.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ ternary "ClusterRole" "Role" $all }}
  name: {{ $.name }}
subjects:
  - kind: ServiceAccount
    name: {{ $.account }}
    namespace: {{ $.root.Release.Namespace }}
{{- end }}
{{- end }}
