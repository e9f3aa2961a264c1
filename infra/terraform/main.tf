# Whittle's stack, once per account and Region, from the template of a release.
resource "aws_cloudformation_stack" "whittle" {
  name         = var.name
  template_url = var.template_url
  capabilities = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
  parameters   = var.parameters
  tags         = var.tags

  # A canary looks at each function for ten minutes.
  timeouts {
    create = "60m"
    update = "60m"
    delete = "60m"
  }

  # Nodes outlive the stack: docs/deployment.md says what to do before it is deleted. The ledger refuses deletion besides.
  lifecycle {
    prevent_destroy = true
  }
}
