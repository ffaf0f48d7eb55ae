//! Container runtime, network, names, Windows.

use super::{Severity, Verdict, verdicts};

verdicts! { NODE;
    CR01 Error "containerd's configuration cannot be read"
    cause "It is not TOML, or it names a plugin in the way of version 1. containerd exits, and the kubelet with it."
    fix "correct the TOML; name plugins by their URI, such as `plugins.\"io.containerd.grpc.v1.cri\"`"
    source "containerd, docs/PLUGINS.md; kata-containers/kata-containers#4124"

    CR03 Error "containerd and the kubelet use different cgroup drivers"
    cause "containerd and the kubelet must agree on who manages cgroups. If they do not, no pod gets a sandbox: `expected cgroupsPath to be of format \"slice:prefix:name\"`."
    fix "leave `SystemdCgroup = true` and `cgroupDriver: systemd`, which EKS images have"
    source "containerd/containerd#4857"

    NW06 Warning "a proxy without the exceptions that a node needs"
    cause "Instance metadata is not behind any proxy: requests for credentials go to the proxy and fail."
    fix "add `NO_PROXY` with `169.254.169.254`, the VPC's CIDR, `.internal` and the API server's name"
    source "aws/amazon-vpc-cni-k8s#49"

    AU05 Error "the node's name is fixed"
    cause "The node's name must be the one that its credentials give it. The same user data goes to every node, so a fixed name fits at most one, and the API server refuses the others: `node \"Y\" is not allowed to modify node \"X\"`."
    fix "remove `--hostname-override`: the bootstrap sets it"
    source "awslabs/amazon-eks-ami#1263, #1711"

    AU08 Error "the node's name is none"
    cause "A Node's name is an RFC 1123 subdomain: lower-case letters, digits, `-` and `.`. The API server refuses any other."
    fix "remove `--hostname-override`, or write a name of lower-case letters, digits, `-` and `.`"
    source "rancher/rancher#35048; kubernetes/kubernetes#71140"

    AU14 Error "the provider ID is set by hand"
    cause "The provider ID links a Node with its instance, and is another one on every instance. With a wrong one Karpenter never finds the Node (`NodeNotFound`), and the cloud controller deletes it."
    fix "remove `providerID` and `--provider-id`: the bootstrap sets it to `aws:///ZONE/INSTANCE`"
    source "kubernetes/cloud-provider-aws#72"

    WN04 Error "a parameter that Start-EKSBootstrap.ps1 does not have"
    cause "PowerShell refuses the call, or the value becomes the value of another parameter; the kubelet is not configured."
    fix "use the parameters of the script: `-EKSClusterName`, `-APIServerEndpoint`, `-Base64ClusterCA`, `-DNSClusterIP`, `-ServiceCIDR`, `-KubeletExtraArgs`, `-KubeProxyExtraArgs`, `-ExcludedSnatCIDRs`, `-ContainerRuntime`"
    source "awslabs/amazon-eks-ami#348"

    WN09 Error "EC2Launch does not run this user data"
    cause "EC2Launch runs what stands between `<powershell>` and `</powershell>` and ignores everything else."
    fix "put the script between `<powershell>` and `</powershell>`"
    source "EC2 User Guide for Windows, user data"

    WN11 Error "`<powershell>` inside `<powershell>`"
    cause "Muster and Karpenter put the lines of an EC2NodeClass between tags of their own. Tags in it end the script early, before the call that joins the node."
    fix "remove `<powershell>` and `</powershell>` from `spec.userData`"
    source "aws/karpenter-provider-aws, pkg/providers/amifamily/bootstrap/windows.go"

    WN12 Error "Start-EKSBootstrap.ps1 is never called"
    cause "On Windows nothing starts the kubelet but the call of this script."
    fix "call it: `& \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\" -EKSClusterName my-cluster`"
    source "amazon-eks-ami, Windows bootstrap"
}
