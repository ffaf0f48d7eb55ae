//! Verdicts on Windows nodes, found on the node.

use super::{Severity, Verdict, verdicts};

verdicts! { WINDOWS;
    WN01 Error "pods get no address from the control plane"
    cause "The VPC resource controller gives every Windows pod its address in a label. Without it the plug-in `vpc-bridge` fails, and no pod starts."
    fix "set `enable-windows-ipam: \"true\"` in ConfigMap kube-system/amazon-vpc-cni, and attach AmazonEKSVPCResourceController to the cluster's role"
    source "Karpenter, documentation, troubleshooting"

    WN03 Warning "an image is made for another Windows"
    cause "A container shares the kernel of its host: an image of another release of Windows Server does not start, or has no variant for this one."
    fix "use an image for this release, or a node of the image's release (label `node.kubernetes.io/windows-build`)"
    source "Karpenter, documentation, troubleshooting; Microsoft, Windows container version compatibility"

    WN05 Warning "containerd's pipe is not there"
    cause "The kubelet reaches containerd by `npipe:////./pipe/containerd-containerd`. Services start side by side, and a kubelet that comes first ends and is started again; this lasts longer."
    fix "look at the service: `sc.exe query containerd`, and at C:\\ProgramData\\containerd\\root\\panic.log"
    source "Azure/AgentBaker#9358"

    WN06 Warning "kube-proxy may not work for this node"
    cause "On Windows kube-proxy uses the node's own credentials, and the node's role is not in group eks:kube-proxy-windows: services do not reach pods on this node."
    fix "map the role with an access entry of type EC2_WINDOWS, or add group eks:kube-proxy-windows to it in ConfigMap aws-auth"
    source "Amazon EKS user guide, enable Windows support"

    WN07 Error "the host network cannot be created"
    cause "The host network service has no network for pods: the L2 bridge over the instance's interface was not created."
    fix "look at the event log of Host-Network-Service; replace the instance"
    source "Azure/acs-engine#4352"
}
