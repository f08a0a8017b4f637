{{- define "mxl-fabrics-agent.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "mxl-fabrics-agent.selector" -}}
app: mxl-fabrics-agent
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "mxl-fabrics-agent.labels" -}}
{{ include "mxl-fabrics-agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "mxl-fabrics-agent.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The text of a setting: JSON of objects and of lists of objects, other lists
with commas, numbers without an exponent. */}}
{{- define "mxl-fabrics-agent.setting" -}}
{{- $value := . }}
{{- if kindIs "map" $value }}{{ toJson $value }}
{{- else if kindIs "slice" $value }}
{{- $objects := false }}
{{- range $value }}{{ if kindIs "map" . }}{{ $objects = true }}{{ end }}{{ end }}
{{- if $objects }}{{ toJson $value }}{{ else }}{{ join "," $value }}{{ end }}
{{- else if kindIs "float64" $value }}{{ int64 $value }}
{{- else }}{{ $value }}{{ end }}
{{- end }}

{{- /* A node's file: PEERS and NMOS_TAGS stay JSON, other lists become text. */}}
{{- define "mxl-fabrics-agent.file" -}}
{{- $file := dict }}
{{- range $key, $value := . }}
{{- if or (has $key (list "PEERS" "NMOS_TAGS")) (not (kindIs "slice" $value)) }}{{ $_ := set $file $key $value }}
{{- else }}{{ $_ := set $file $key (join "," $value) }}{{ end }}
{{- end }}
{{- toPrettyJson $file }}
{{- end }}

{{- define "mxl-fabrics-agent.check" -}}
{{- if le (int .Values.terminationGracePeriod) (int .Values.shutdownTimeout) }}
{{- fail (printf "terminationGracePeriod %d must be more than shutdownTimeout %d" (int .Values.terminationGracePeriod) (int .Values.shutdownTimeout)) }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled .Values.podMonitor.enabled }}
{{- fail "serviceMonitor and podMonitor are both enabled: every series would be there twice" }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (not .Values.service.enabled) }}
{{- fail "serviceMonitor needs service.enabled" }}
{{- end }}
{{- if or (eq (int .Values.ports.web) (int .Values.ports.nmos)) (eq (int .Values.ports.web) (add1 (int .Values.ports.nmos) | int)) }}
{{- fail (printf "ports.web %d is taken by the NMOS node" (int .Values.ports.web)) }}
{{- end }}
{{- end }}
