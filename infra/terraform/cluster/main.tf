# One EKS cluster that Whittle's stack serves: its registration, the functions' and the relay's access, and the chart.
data "aws_region" "current" {}

locals {
  outputs   = var.stack.outputs
  functions = ["Provisioner", "Lifecycle", "Disruption", "Terminator", "Interruption", "Housekeeper"]
  # Functions within the VPC have separate queues.
  lane = var.reach == "public" ? "" : "VpcLane"

  values = {
    cluster = var.name
    stack = {
      region = coalesce(var.region, data.aws_region.current.name)
      table  = local.outputs["Table"]
      bucket = local.outputs["Bucket"]
      queues = {
        for queue in ["Provision", "Lifecycle", "Disrupt", "Terminate"] : lower(queue) => local.outputs["${local.lane}${queue}QueueUrl"]
      }
    }
  }
}

# The registry entry. `whittle activate` and `whittle deactivate` change its mode, and people its settings, without Terraform.
resource "aws_ssm_parameter" "entry" {
  name = "${var.stack.registry_prefix}/${var.name}"
  type = "String"
  value = jsonencode({
    type     = "eks"
    reach    = var.reach
    mode     = "shadow"
    settings = var.settings
  })
  tags = var.tags

  lifecycle {
    ignore_changes = [value]
  }
}

# Each function's role is a member of the group that the chart binds.
resource "aws_eks_access_entry" "function" {
  for_each = toset(local.functions)

  cluster_name      = var.name
  principal_arn     = local.outputs["${each.key}RoleArn"]
  kubernetes_groups = ["whittle:${lower(each.key)}"]
  type              = "STANDARD"
  tags              = var.tags
}

# The relay's credentials; the cluster needs the add-on eks-pod-identity-agent.
resource "aws_eks_pod_identity_association" "relay" {
  cluster_name    = var.name
  namespace       = var.namespace
  service_account = "whittle-relay"
  role_arn        = local.outputs["RelayRoleArn"]
  tags            = var.tags
}

resource "helm_release" "whittle" {
  count = var.chart == null ? 0 : 1

  name       = "whittle"
  namespace  = var.namespace
  repository = var.chart.repository
  chart      = var.chart.name
  version    = var.chart.version
  values     = concat([yamlencode(local.values)], var.values)

  # A wake for a cluster that is not registered ends in a dead-letter queue.
  depends_on = [aws_ssm_parameter.entry, aws_eks_access_entry.function, aws_eks_pod_identity_association.relay]
}
