# The EKS images of Amazon Linux 2023, for both architectures: the newest of the version of Kubernetes.

source "amazon-ebs" "al2023" {
  region               = var.region
  subnet_id            = var.subnet_id
  iam_instance_profile = var.instance_profile
  communicator         = "ssh"
  ssh_username         = "ec2-user"
  # The key of the build is not left in the image.
  ssh_clear_authorized_keys = true
  ami_description           = "EKS ${var.kubernetes_version} on AL2023 with muster-agent ${var.version}"
  tags                      = local.tags
  snapshot_tags             = local.tags
  run_tags                  = local.tags
}

build {
  name = "al2023"

  source "amazon-ebs.al2023" {
    name          = "x86_64"
    ami_name      = "muster-eks-al2023-x86_64-${var.kubernetes_version}-${local.built}"
    instance_type = "m7i.large"
    source_ami_filter {
      filters = {
        name                = "amazon-eks-node-al2023-x86_64-standard-${var.kubernetes_version}-v*"
        architecture        = "x86_64"
        root-device-type    = "ebs"
        virtualization-type = "hvm"
      }
      owners      = var.owners
      most_recent = true
    }
  }

  source "amazon-ebs.al2023" {
    name          = "arm64"
    ami_name      = "muster-eks-al2023-arm64-${var.kubernetes_version}-${local.built}"
    instance_type = "m7g.large"
    source_ami_filter {
      filters = {
        name                = "amazon-eks-node-al2023-arm64-standard-${var.kubernetes_version}-v*"
        architecture        = "arm64"
        root-device-type    = "ebs"
        virtualization-type = "hvm"
      }
      owners      = var.owners
      most_recent = true
    }
  }

  provisioner "file" {
    only        = ["amazon-ebs.x86_64"]
    source      = "${var.packages}/muster-agent-${var.version}-1.x86_64.rpm"
    destination = "/tmp/muster-agent.rpm"
  }

  provisioner "file" {
    only        = ["amazon-ebs.arm64"]
    source      = "${var.packages}/muster-agent-${var.version}-1.aarch64.rpm"
    destination = "/tmp/muster-agent.rpm"
  }

  provisioner "file" {
    source      = "${var.packages}/muster-agent-native-${var.version}-1.noarch.rpm"
    destination = "/tmp/muster-agent-native.rpm"
  }

  provisioner "shell" {
    script           = "${path.root}/scripts/al2023.sh"
    execute_command  = "sudo env {{ .Vars }} {{ .Path }}"
    environment_vars = ["NATIVE=${var.native}"]
  }
}
