{{- define "whittle.relay.name" -}}
{{- printf "%s-relay" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "whittle.relay.selectorLabels" -}}
app.kubernetes.io/name: whittle-relay
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "whittle.labels" -}}
app.kubernetes.io/part-of: whittle
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- end -}}

{{- define "whittle.relay.serviceAccountName" -}}
{{- $account := .Values.relay.serviceAccount -}}
{{- if $account.create -}}
{{- default (include "whittle.relay.name" .) $account.name -}}
{{- else -}}
{{- required "relay.serviceAccount.name is needed where relay.serviceAccount.create is false" $account.name -}}
{{- end -}}
{{- end -}}

{{- define "whittle.relay.image" -}}
{{- $image := .Values.relay.image -}}
{{- $repository := required "relay.image.repository is needed: write it with `make relay-image` and push it to a registry of yours" $image.repository -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/*
Resources that the planning functions read to observe the cluster. Large lists are listed once and then watched. The functions read no
Secrets, and no ConfigMaps but their own (status.yaml).
*/}}
{{- define "whittle.functions.observe" -}}
- apiGroups: [""]
  resources: [nodes, pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [namespaces, persistentvolumeclaims, persistentvolumes]
  verbs: [list]
- apiGroups: [apps]
  resources: [daemonsets]
  verbs: [list]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list]
- apiGroups: [storage.k8s.io]
  resources: [csinodes, storageclasses, volumeattachments]
  verbs: [list]
- apiGroups: [karpenter.sh]
  resources: [nodeclaims]
  verbs: [get, list, watch]
- apiGroups: [karpenter.sh]
  resources: [nodepools]
  verbs: [list]
- apiGroups: [karpenter.k8s.aws]
  resources: [ec2nodeclasses]
  verbs: [list]
{{- end -}}

{{/* "true" if device claims of pods are evaluated, by the rules of Karpenter's chart; otherwise empty. */}}
{{- define "whittle.functions.devices" -}}
{{- $settings := .Values.settings -}}
{{- $drivers := or $settings.awsFeatureGates.draNVIDIAGPU $settings.awsFeatureGates.draEFA -}}
{{- $ignore := $settings.ignoreDRARequests -}}
{{- if and $settings.enableDRA (or $drivers (not (kindIs "invalid" $ignore))) -}}
{{- fail "settings.enableDRA: leave out settings.awsFeatureGates.draNVIDIAGPU, settings.awsFeatureGates.draEFA and settings.ignoreDRARequests, which it decides" -}}
{{- end -}}
{{- if or $settings.enableDRA $drivers (and (kindIs "bool" $ignore) (not $ignore)) -}}true{{- end -}}
{{- end -}}

{{/* Additional resources of functions that plan with NodeOverlays and CapacityBuffers, including the objects that buffers refer to. */}}
{{- define "whittle.functions.gated" -}}
- apiGroups: [karpenter.sh]
  resources: [nodeoverlays]
  verbs: [list]
- apiGroups: [autoscaling.x-k8s.io]
  resources: [capacitybuffers]
  verbs: [list]
- apiGroups: [""]
  resources: [podtemplates]
  verbs: [get]
- apiGroups: [apps]
  resources: [deployments, replicasets, statefulsets]
  verbs: [get]
{{- end -}}

{{/*
Additional resources of functions that choose nodes for pods: default spread constraints use the selectors of the pods' owners, and pods are
read again before nodes are launched for them.
*/}}
{{- define "whittle.functions.schedule" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [get]
- apiGroups: [apps]
  resources: [replicasets, statefulsets]
  verbs: [list]
- apiGroups: [""]
  resources: [replicationcontrollers, services]
  verbs: [list]
{{- end -}}
