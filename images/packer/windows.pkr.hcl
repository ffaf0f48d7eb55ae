# The EKS image of Windows Server 2022 Core: the newest of the version of Kubernetes.

source "amazon-ebs" "windows-2022" {
  ami_name        = "muster-eks-windows-2022-${var.kubernetes_version}-${local.built}"
  ami_description = "EKS ${var.kubernetes_version} on Windows Server 2022 Core with muster-agent ${var.version}"
  instance_type   = "m7i.xlarge"
  region          = var.region

  source_ami_filter {
    filters = {
      name                = "Windows_Server-2022-English-Core-EKS_Optimized-${var.kubernetes_version}-*"
      architecture        = "x86_64"
      root-device-type    = "ebs"
      virtualization-type = "hvm"
    }
    owners      = var.owners
    most_recent = true
  }

  subnet_id            = var.subnet_id
  iam_instance_profile = var.instance_profile
  # Opens WinRM over TLS with a certificate of its own, as no image has it open.
  user_data_file = "${path.root}/scripts/winrm.ps1"
  communicator   = "winrm"
  winrm_username = "Administrator"
  winrm_use_ssl  = true
  # The certificate was made a minute ago, by the machine itself.
  winrm_insecure = true
  winrm_timeout  = "20m"
  tags           = local.tags
  snapshot_tags  = local.tags
  run_tags       = local.tags
}

build {
  name    = "windows-2022"
  sources = ["source.amazon-ebs.windows-2022"]

  provisioner "file" {
    source      = "${var.packages}/muster-agent-${var.version}-windows-amd64.zip"
    destination = "C:/Windows/Temp/muster-agent.zip"
  }

  provisioner "powershell" {
    script = "${path.root}/scripts/windows.ps1"
  }
}
