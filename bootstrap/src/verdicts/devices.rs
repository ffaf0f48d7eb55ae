//! Verdicts on the pod network, startup taints and devices, found on the node.

use super::{Severity, Verdict, verdicts};

verdicts! { DEVICES;
    CN01 Warning "there is no network for pods"
    cause "The node is not Ready before a CNI plugin has written its configuration. `aws-node` does it, once it runs on the node."
    fix "look at the pod `aws-node` of this node: check that it exists, that its image is pulled, and the log of ipamd"
    source "aws/karpenter-provider-aws, troubleshooting"

    CN08 Warning "pod-eni is not offered"
    cause "`vpc.amazonaws.com/pod-eni` is written by the control plane, after aws-node has asked for a trunk interface. No device plugin is involved."
    fix "set `ENABLE_POD_ENI=true` on aws-node, and attach AmazonEKSVPCResourceController to the cluster's role"
    source "aws/karpenter-provider-aws#2833; amazon-vpc-resource-controller-k8s"

    CN09 Warning "the instance type has no trunk"
    cause "`vpc.amazonaws.com/pod-eni` needs a trunk interface, and the VPC resource controller has none for this type: the event says `is not supported yet by the vpc resource controller`."
    fix "launch types with trunking for pods with security groups (most Nitro types but T3), or drop the request"
    source "aws/karpenter-provider-aws#8981; amazon-vpc-resource-controller-k8s, limits table"

    CN10 Error "the trunk interface is not attached"
    cause "The control plane has marked the node `vpc.amazonaws.com/has-trunk-attached` as false or not supported: the type has no trunk, or all interfaces were in use before."
    fix "use instance types with trunking for pods with security groups, or lower the number of interfaces that aws-node keeps warm"
    source "aws/amazon-vpc-cni-k8s#3572, #2792"

    CN11 Warning "a startup taint is not removed"
    cause "The node is Ready and still has a taint that its owner has to remove; until then it is not initialized and takes no pods."
    fix "look for the pod of its owner on this node; if nothing removes the taint, take it out of `spec.startupTaints` of the NodePool"
    source "aws/containers-roadmap#2470; aws/karpenter-provider-aws#5293"

    CN15 Warning "a resource that was asked for is not offered"
    cause "The node was launched for pods that need it, and the kubelet does not offer it."
    fix "look for the pod of its device plugin on this node, and that it tolerates the node's taints"
    source "karpenter, NodeClaim initialization"

    WN02 Warning "Windows addresses are not offered"
    cause "`vpc.amazonaws.com/PrivateIPv4Address` is written by the control plane if Windows IPAM is on."
    fix "set `enable-windows-ipam: \"true\"` in ConfigMap kube-system/amazon-vpc-cni, and attach AmazonEKSVPCResourceController to the cluster's role"
    source "amazon-vpc-resource-controller-k8s"

    GP02 Error "the driver of the GPU does not work"
    cause "The driver is installed and does not initialize: the wrong flavour for this GPU, or the module was not loaded."
    fix "read `journalctl -u nvidia-kmod-load` and `dmesg`; use a newer image"
    source "awslabs/amazon-eks-ami#1697, #1618"

    GP06 Error "there are fewer devices than there should be"
    cause "The instance type has more of them than are seen: one has fallen off the bus, or the plugin does not see it."
    fix "replace the instance"
    source "EKS node monitoring agent, NvidiaDeviceCountMismatch"

    GP07 Error "the resource has another name on this node"
    cause "The device plugin offers the devices under another name: with time-slicing `nvidia.com/gpu.shared`, with MIG `nvidia.com/mig-…`."
    fix "ask for the name that the node offers, or turn off `renameByDefault` or the mixed MIG strategy"
    source "NVIDIA, k8s-device-plugin"

    GP08 Error "the GPU is cut into MIG devices"
    cause "The device plugin runs with `migStrategy: mixed` and offers `nvidia.com/mig-…` in the place of `nvidia.com/gpu`."
    fix "ask for the profile that the node offers, or set `migStrategy: single` or `none`"
    source "NVIDIA k8s-device-plugin, MIG"

    GP11 Error "there is a device without its device file"
    cause "The driver is loaded and `/dev` has no file for the device, so no plugin finds it."
    fix "check the driver's log in `dmesg`, and what should create the file (`nvidia-modprobe`, udev)"
    source "AWS Neuron documentation; NVIDIA driver documentation"

    GP12 Error "all devices are unhealthy or lost"
    cause "A plugin was registered, and the kubelet now counts no healthy device of it: the plugin ended, says that they are unhealthy, or has not registered again after a restart of the kubelet."
    fix "look at the pod of the device plugin on this node; a plugin must watch kubelet.sock and register again"
    source "kubernetes.io, device plugins"

    GP13 Error "device plugins cannot register"
    cause "The kubelet's socket for plugins is not there: the kubelet does not run, or another folder is mounted into the plugin."
    fix "start the kubelet; plugins must mount /var/lib/kubelet/device-plugins"
    source "k8s.io/kubelet, pkg/apis/deviceplugin/v1beta1"

    GP15 Error "the fabric manager does not run"
    cause "On instances with NVSwitch the GPUs are not usable before nvidia-fabricmanager runs."
    fix "start nvidia-fabricmanager of the driver's very version"
    source "EKS node monitoring agent, FabricManagerNotRunning"

    GP16 Warning "no device plugin has registered"
    cause "Driver and device files are there, and no plugin has registered the resource with the kubelet: its pod is not on this node, or fails."
    fix "look for the pod of the device plugin on this node, that it tolerates the node's taints, and its log"
    source "aws-efa-eks#18; eksctl-io/eksctl#8089"

    GP17 Error "the instance does not have the device"
    cause "Nothing of the kind is on the bus: the instance type has none, or it was launched without the interface for it (EFA)."
    fix "launch a type that has it; for EFA let the launch template have interfaces of type efa"
    source "aws-efa-eks#18; awslabs/data-on-eks#53"
}
