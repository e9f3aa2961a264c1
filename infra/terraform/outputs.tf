output "stack" {
  description = "What the module cluster needs to know of the stack."
  value = {
    name            = aws_cloudformation_stack.whittle.name
    outputs         = aws_cloudformation_stack.whittle.outputs
    registry_prefix = lookup(var.parameters, "RegistryPrefix", "/whittle/clusters")
  }
}
