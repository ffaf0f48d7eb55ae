# What may be set with `-var`, or in a file of `-var-file`.

variable "packages" {
  type        = string
  description = "The folder that images/build filled."
}

variable "version" {
  type        = string
  default     = "0.1.0"
  description = "The version of the agent, as the packages are named."
}

variable "kubernetes_version" {
  type        = string
  default     = "1.34"
  description = "The version of Kubernetes of the EKS image that is built upon."
}

variable "region" {
  type        = string
  default     = "us-east-1"
  description = "Where the image is built, and is to be found afterwards."
}

variable "owners" {
  type        = list(string)
  default     = ["amazon"]
  description = "Accounts whose images are built upon; your own, if you build upon an image of yours."
}

variable "subnet_id" {
  type        = string
  default     = ""
  description = "The subnet of the instance that builds; empty for the account's default."
}

variable "instance_profile" {
  type        = string
  default     = ""
  description = "An instance profile for the instance that builds; empty for none: it needs no rights in AWS."
}

variable "native" {
  type        = bool
  default     = false
  description = "On Linux: the agent runs the bootstrap, in place of nodeadm."
}

variable "tags" {
  type        = map(string)
  default     = {}
  description = "Tags of the image, its snapshots and the instance that builds."
}

locals {
  built = formatdate("YYYYMMDD-hhmmss", timestamp())
  tags = merge(var.tags, {
    "muster.dev/agent-version"      = var.version
    "muster.dev/kubernetes-version" = var.kubernetes_version
  })
}
