//! Verdicts on the machine, its kubelet and its containers, found on the node.

use super::{Severity, Verdict, verdicts};

verdicts! { MACHINE;
    KA17 Error "swap is on"
    cause "A kubelet with `failSwapOn` (the default) exits: `running with swap on is not supported`."
    fix "turn swap off (`swapoff -a`, and its line in /etc/fstab), or set `failSwapOn: false` and say how it may be used"
    source "k8s.io/kubernetes, pkg/kubelet/cm/container_manager_linux.go"

    KA19 Error "a kernel setting that the kubelet refuses"
    cause "With `protectKernelDefaults: true`, which EKS sets, the kubelet does not correct kernel settings: it exits with `invalid kernel flag`."
    fix "set it as EKS images do (`/etc/sysctl.d/99-amazon.conf`), after what hardens the image, or set `protectKernelDefaults: false`"
    source "terraform-aws-modules/terraform-aws-eks#3595; k8s.io/kubernetes, pkg/kubelet/cm"

    KA21 Error "the machine has more NUMA nodes than the kubelet manages"
    cause "With a policy of the topology manager the kubelet refuses a machine with more than 8 NUMA nodes and does not start."
    fix "set `topologyManagerPolicyOptions: {max-allowable-numa-nodes: \"…\"}` to the number of NUMA nodes, or `topologyManagerPolicy: none`"
    source "kubernetes/kubernetes#124148"

    KA22 Error "a cgroup that the kubelet must limit is not there"
    cause "`enforceNodeAllocatable` names `system-reserved` or `kube-reserved`, and the cgroup for it does not exist. The kubelet exits."
    fix "create the cgroup (a slice) before the kubelet starts, or enforce `pods` only"
    source "kubernetes/kubernetes#96352, #125763"

    KA23 Error "a file that the kubelet must read does not exist"
    cause "The bootstrap has not written it, or wrote it elsewhere. The kubelet exits."
    fix "look at why the bootstrap did not run to its end (`journalctl -u nodeadm-config -u cloud-final`)"
    source "awslabs/amazon-eks-ami#442; bottlerocket-os/bottlerocket#4586"

    KA26 Error "a port of the kubelet is taken"
    cause "Another process listens on it, often a second kubelet. The kubelet exits with `bind: address already in use`."
    fix "stop the process that listens there (`ss -ltnp`), and keep it out of the image"
    source "k8s.io/kubernetes, pkg/kubelet/server"

    KA27 Error "there are too few inotify instances or watches"
    cause "The kubelet watches files and exits, or starts no plugin watcher, when the limit of the user is used up: `too many open files`."
    fix "raise `fs.inotify.max_user_instances` to 8192 and `fs.inotify.max_user_watches` to 524288"
    source "kubernetes/kubernetes#64614; awslabs/amazon-eks-ami#1065"

    KA28 Warning "the kubelet is newer than the API server"
    cause "A kubelet must not be newer than the API server that it talks to. It is not refused, but its new features may fail."
    fix "use an image for the cluster's version"
    source "kubernetes.io, version skew policy; awslabs/amazon-eks-ami#2119"

    KA32 Error "the kubelet's file of name servers is not there"
    cause "`resolvConf` names a file that does not exist. The kubelet starts, and no pod that uses the node's DNS does."
    fix "name the file that the node has: /run/systemd/resolve/resolv.conf with systemd-resolved, else /etc/resolv.conf"
    source "kubernetes/kubernetes#116625"

    KA37 Error "the kubelet keeps exiting"
    cause "The kubelet exits and systemd starts it again forever: its unit has no start limit that counts. This is reported only if its journal does not show the reason."
    fix "read its last words: `journalctl -u kubelet -n 50`"
    source "measured with systemd 252: a restart every 5 s never reaches the start limit"

    KA38 Error "the kubelet does not answer"
    cause "The unit is active, and the kubelet's health port reports that it is unhealthy, or does not answer."
    fix "read `journalctl -u kubelet -n 50`; a kubelet that waits for containerd or for the disk looks like this"
    source "k8s.io/kubernetes, pkg/kubelet/server (`/healthz`, port 10248)"

    CR02 Error "containerd does not run"
    cause "The kubelet needs containerd's socket and exits, or the node is not Ready, without it."
    fix "read `journalctl -u containerd -n 50`, correct /etc/containerd/config.toml, and start containerd"
    source "awslabs/amazon-eks-ami#699"

    CR04 Error "the image of the pod sandbox cannot be pulled"
    cause "The registry refuses the pause image: another account or region, a token that has expired, or no way to ECR. No pod gets a sandbox."
    fix "use the image's own pause image (`localhost/kubernetes/pause`), or allow the node's role to read from ECR"
    source "awslabs/amazon-eks-ami#1740, #2061, #1425"

    CR05 Error "the image of the pod sandbox is not there"
    cause "The pause image was not imported, or was removed by garbage collection. No pod gets a sandbox."
    fix "restart containerd, whose unit imports it; if that does not help, use another release of the image"
    source "awslabs/amazon-eks-ami#2729"

    CR06 Warning "the credential provider for images fails"
    cause "ecr-credential-provider ended with an error or too late: the role may not read from ECR, or its endpoint cannot be reached."
    fix "attach AmazonEC2ContainerRegistryPullOnly to the node's role, and check the way to api.ecr"
    source "awslabs/amazon-eks-ami#1949, #1277"

    CR07 Warning "images cannot be pulled from ECR"
    cause "Requests to the registry or to S3, where its layers lie, time out."
    fix "add VPC endpoints for ecr.api, ecr.dkr and S3, or a NAT gateway"
    source "awslabs/amazon-eks-ami#1633"

    CR08 Error "containerd does not know a runtime that pods ask for"
    cause "A runtime class names a handler, often `nvidia`, that containerd's configuration does not have."
    fix "use an accelerated image, or install the toolkit that adds the handler"
    source "containerd, CRI plugin configuration"

    CR09 Warning "the snapshotter for fast pulls does not run"
    cause "The feature gate `FastImagePull` makes the kubelet talk to soci-snapshotter, whose socket does not answer."
    fix "read `journalctl -u soci-snapshotter`, or turn the gate off"
    source "amazon-eks-ami, nodeadm/internal/containerd"

    CR11 Error "a disk is full"
    cause "The kubelet evicts pods and takes no new ones (DiskPressure), or cannot write its files at all."
    fix "give the root volume more room in `spec.blockDeviceMappings` of the EC2NodeClass, for the device that the image boots from"
    source "kubernetes.io, node-pressure eviction"

    CR13 Error "containerd is too old for this kubelet"
    cause "Kubernetes 1.35 was the last to support containerd 1."
    fix "use an image with containerd 2"
    source "kubernetes.io, blog on 1.36"
}
