//! Verdicts on the container runtime, the network, names and Windows.

use super::{Severity, Verdict, verdicts};

verdicts! { NODE;
    CR01 Error "containerd's configuration cannot be read"
    cause "It is not TOML, or it names a plugin as in version 1. containerd exits, and the kubelet with it."
    fix "correct the TOML; name plugins by their URI, such as `plugins.\"io.containerd.grpc.v1.cri\"`"
    source "containerd, docs/PLUGINS.md; kata-containers/kata-containers#4124"

    CR03 Error "containerd and the kubelet use different cgroup drivers"
    cause "containerd and the kubelet must agree on who manages cgroups. If they do not, no pod gets a sandbox: `expected cgroupsPath to be of format \"slice:prefix:name\"`."
    fix "leave `SystemdCgroup = true` and `cgroupDriver: systemd`, which EKS images have"
    source "containerd/containerd#4857"

    NW06 Warning "a proxy that does not lead to what a node needs"
    cause "A kubelet that has a proxy goes to the API server by it, and fails if the proxy is down or refuses: `proxyconnect tcp: dial tcp`, which is an error. Instance metadata is not behind any proxy: without an exception, requests for credentials go there and fail."
    fix "add `NO_PROXY` with `169.254.169.254`, the VPC's CIDR, `.internal` and the API server's name"
    source "aws/amazon-vpc-cni-k8s#49"

    AU02 Error "a role or instance profile is named with its path"
    cause "The API server compares roles without their paths: a mapping for `role/eks/nodes` never fits, nor does the ARN of an instance profile. EC2 wants names, not ARNs."
    fix "name the role by its ARN without the path (`arn:aws:iam::ACCOUNT:role/NAME`) in the access entry or aws-auth, and by its name in the EC2NodeClass"
    source "aws/containers-roadmap#926; EKS documentation, IAM roles for nodes"

    AU05 Error "the node's name is fixed"
    cause "The node's name must be the one that its credentials give it. The same user data goes to every node, so a fixed name fits at most one, and the API server refuses the others: `node \"Y\" is not allowed to modify node \"X\"`."
    fix "remove `--hostname-override`: the bootstrap sets it"
    source "awslabs/amazon-eks-ami#1263, #1711"

    AU08 Error "the node's name is invalid"
    cause "A Node's name is an RFC 1123 subdomain: lower-case letters, digits, `-` and `.`. The API server refuses any other."
    fix "remove `--hostname-override`, or write a name of lower-case letters, digits, `-` and `.`"
    source "rancher/rancher#35048; kubernetes/kubernetes#71140"

    AU14 Error "the provider ID is set by hand"
    cause "The provider ID links a Node with its instance, and is another one on every instance. With a wrong one Karpenter never finds the Node (`NodeNotFound`), and the cloud controller deletes it."
    fix "remove `providerID` and `--provider-id`: the bootstrap sets it to `aws:///ZONE/INSTANCE`"
    source "kubernetes/cloud-provider-aws#72"

    CN07 Warning "there are more pods than addresses"
    cause "Pods in the VPC's network need an address each, and the interfaces of the instance type have fewer. Those that come last wait forever: `failed to assign an IP address to container`."
    fix "lower `maxPods`, or let aws-node hand out prefixes (`ENABLE_PREFIX_DELEGATION=true`)"
    source "karpenter.sh, troubleshooting; ec2:DescribeInstanceTypes"

    GP01 Error "there is a device, and no driver for it"
    cause "The device is on the bus and no driver has taken it: the image is not made for this instance type, or the driver \
           comes later than the kubelet. It is waited for: its absence is an error ten minutes after the Node has registered."
    fix "use an accelerated image (an `amiSelectorTerms` alias picks it for GPU types), or install the driver"
    source "awslabs/amazon-eks-ami#1817"

    ID02 Error "instance metadata is turned off"
    cause "Every request is answered with 403: the instance was launched with `HttpEndpoint=disabled`."
    fix "set `spec.metadataOptions.httpEndpoint: enabled` in the EC2NodeClass"
    source "EC2 User Guide, instance metadata options"

    ID03 Info "pods cannot reach instance metadata"
    cause "With a hop limit of 1 the answer to a request for a token does not get from the host to a pod. aws-node and drivers without a role of their own find no credentials: `no EC2 IMDS role found`."
    fix "give the pods roles by IRSA or Pod Identity; `spec.metadataOptions.httpPutResponseHopLimit: 2` helps too, but gives every pod the credentials of the node's role, its identity document and its user data with the launch token"
    source "EC2 User Guide, instance metadata options; EKS best practices"

    ID14 Warning "pods can read instance metadata"
    cause "With a hop limit of 2 or more the answer to a request for a token gets from the host to pods. Every pod, whatever its ServiceAccount, can then read the credentials of the node's role, the node's identity document and its user data with the launch token."
    fix "set `spec.metadataOptions.httpPutResponseHopLimit: 1`, which is the default, and give pods that need AWS roles by IRSA or Pod Identity; if it has to be 2, let a NetworkPolicy keep other pods from 169.254.169.254"
    source "EC2 User Guide, instance metadata options; EKS best practices, identity and access management"

    UD13 Error "a program of the bootstrap cannot be executed"
    cause "It is there, and may not be run: its mode lacks the execute bit, or SELinux is enforcing and its label is not that of a program, as after copying it into an image. systemd says `Failed to locate executable` or `Failed at step EXEC`."
    fix "run `chmod 0755` and `restorecon -v` on it as the last step of the build"
    source "awslabs/amazon-eks-ami#2426, #2123"

    WN04 Error "a parameter that Start-EKSBootstrap.ps1 does not have"
    cause "PowerShell refuses the call, or the value becomes the value of another parameter; the kubelet is not configured."
    fix "use the parameters of the script: `-EKSClusterName`, `-APIServerEndpoint`, `-Base64ClusterCA`, `-DNSClusterIP`, `-ServiceCIDR`, `-KubeletExtraArgs`, `-KubeProxyExtraArgs`, `-ExcludedSnatCIDRs`, `-ContainerRuntime`"
    source "awslabs/amazon-eks-ami#348"

    WN08 Error "Start-EKSBootstrap.ps1 ends with an error"
    cause "The script ends at its first error, and the kubelet is not configured. Without `-APIServerEndpoint` and `-Base64ClusterCA` it calls eks:DescribeCluster, which the role may not be allowed, or to which there is no way."
    fix "give `-APIServerEndpoint` and `-Base64ClusterCA`, so that it asks EKS nothing; on the node, read the transcript below C:\\ProgramData\\Amazon\\EKS\\logs"
    source "awslabs/amazon-eks-ami, Windows bootstrap script; about_Transcripts of PowerShell"

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
