variable "stack" {
  description = "Output stack of the module that deploys Whittle."
  type = object({
    name            = string
    outputs         = map(string)
    registry_prefix = string
  })
}

variable "name" {
  description = "Name of the EKS cluster, under which it is registered."
  type        = string
}

variable "reach" {
  description = "Network in which functions reach the cluster's API server: \"public\", or \"vpc:<id>\" where the stack has a lane for that VPC (parameter VpcLaneId)."
  type        = string
  default     = "public"

  validation {
    condition     = can(regex("^(public|vpc:vpc-[0-9a-f]+)$", var.reach))
    error_message = "The reach is \"public\" or \"vpc:<id>\"."
  }
}

variable "region" {
  description = "Region of the stack and the cluster. The default is the provider's."
  type        = string
  default     = null
}

variable "settings" {
  description = "Settings that the cluster is registered with (docs/settings.md). Later changes are made in the registry entry."
  type        = any
  default     = {}
}

variable "namespace" {
  description = "Namespace of the chart."
  type        = string
  default     = "kube-system"
}

variable "chart" {
  description = "The chart to install: { repository = \"oci://...\", name = \"whittle\", version = \"...\" }, or a folder or archive as name. null installs none."
  type = object({
    repository = optional(string)
    name       = optional(string, "whittle")
    version    = optional(string)
  })
  default = null
}

variable "values" {
  description = "Further values of the chart, as YAML documents. Where several apply, the last one wins."
  type        = list(string)
  default     = []
}

variable "tags" {
  description = "Tags of the registry entry, the access entries and the Pod Identity association."
  type        = map(string)
  default     = {}
}
