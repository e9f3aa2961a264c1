output "values" {
  description = "Values of the chart for this cluster, as YAML, for installing it by other means."
  value       = yamlencode(local.values)
}
