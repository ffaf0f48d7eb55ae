# The plugin that speaks to EC2. `packer init .` brings it. Packer before 1.7 has it built in, and does not read this file.
packer {
  required_version = ">= 1.7.0"
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = ">= 1.2.8"
    }
  }
}
