variable "name" {
  description = "Name of the stack. Names of functions, queues and the ledger begin with it."
  type        = string
  default     = "whittle"

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9-]{0,28}$", var.name))
    error_message = "The name has letters, digits and hyphens, begins with a letter, and has at most 29 characters."
  }
}

variable "template_url" {
  description = "Address of template.yaml of a release, in a bucket of this Region: https://<bucket>-<Region>.s3.<Region>.amazonaws.com/whittle/<version>/template.yaml"
  type        = string

  validation {
    condition     = startswith(var.template_url, "https://")
    error_message = "CloudFormation reads templates by https:// from S3."
  }
}

variable "parameters" {
  description = "Parameters of the stack, such as { Architecture = \"arm64\", NodeRoleArns = \"arn:aws:iam::111122223333:role/nodes\" }. docs/deployment.md says when to set which."
  type        = map(string)
  default     = {}
}

variable "tags" {
  description = "Tags of the stack and of everything in it."
  type        = map(string)
  default     = {}
}
