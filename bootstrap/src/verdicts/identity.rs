//! Verdicts on instance metadata, credentials and the clock, found on the node.

use super::{Severity, Verdict, verdicts};

verdicts! { IDENTITY;
    UD12 Error "a unit of the bootstrap failed"
    cause "A unit that writes the kubelet's configuration, or starts the kubelet, ended with an error, and what depends on it was not started. This is reported only if its journal does not show the reason."
    fix "read the journal of the unit named (`journalctl -u nodeadm-config -u nodeadm-run -u cloud-final`)"
    source "aws/karpenter-provider-aws#7889, #8130"

    UD14 Error "systemd has dropped a unit of the bootstrap"
    cause "Units wait for each other in a circle, so systemd leaves one of them out of the boot: `Found ordering cycle`, `deleted to break ordering cycle`. The node never starts its kubelet."
    fix "remove the `After=` or `Before=` that closes the circle, which is in a unit that the image adds (`systemd-analyze verify default.target`)"
    source "systemd 252, src/core/transaction.c"

    UD21 Error "the image does not know the instance type"
    cause "bootstrap.sh looks the type up in /etc/eks/eni-max-pods.txt and ends with `No entry for` it: the image is older than the type."
    fix "use a newer image, or call bootstrap.sh with `--use-max-pods false` and `--max-pods` in `--kubelet-extra-args`"
    source "karpenter.sh, troubleshooting; bootstrap.sh of the last AL2 release"

    UD15 Warning "user data still runs, and the kubelet waits for it"
    cause "nodeadm starts the kubelet after all scripts of user data. A script that waits for the network, a package or a lock holds the node back."
    fix "look at what the script waits for (`systemctl status cloud-final`), and put installations into the image"
    source "awslabs/amazon-eks-ami#2611"

    UD20 Error "bootstrap.sh cannot ask for the cluster"
    cause "Without `--apiserver-endpoint` and `--b64-cluster-ca` bootstrap.sh calls eks:DescribeCluster, which failed."
    fix "give both options, or allow eks:DescribeCluster and a way to the EKS endpoint"
    source "amazon-eks-ami, AL2 bootstrap.sh"

    ID01 Error "instance metadata does not answer"
    cause "Nothing answers at the address of instance metadata, or with an error. Without it there is no user data, no identity and no credentials."
    fix "check routes and local firewalls for 169.254.169.254; right after the start of an instance it comes by itself"
    source "awslabs/amazon-eks-ami#1970"

    ID04 Error "the instance has no role"
    cause "There is no instance profile, or it has no role, so nothing on the node can prove who it is; the API server answers `Unauthorized`."
    fix "set `spec.role` or `spec.instanceProfile` of the EC2NodeClass, and check that the profile has a role"
    source "EC2 User Guide, IAM roles for Amazon EC2"

    ID05 Warning "nodeadm waits for the EC2 API"
    cause "nodeadm asks ec2:DescribeInstances for the node's name, and the request does not come through."
    fix "give the subnet a way to the EC2 endpoint (NAT or a VPC endpoint), or set the feature gate `InstanceIdNodeName`"
    source "awslabs/amazon-eks-ami#2632"

    ID06 Error "nodeadm gave up waiting for the EC2 API"
    cause "For ten minutes no request to ec2:DescribeInstances came through; nodeadm reports it as an error of its waiter."
    fix "give the subnet a way to the EC2 endpoint (NAT or a VPC endpoint), or set the feature gate `InstanceIdNodeName`"
    source "awslabs/amazon-eks-ami#2423"

    ID07 Error "the node's role may not ask EC2"
    cause "nodeadm asks ec2:DescribeInstances for the node's name, and EC2 answers `UnauthorizedOperation`."
    fix "attach AmazonEKSWorkerNodePolicy to the node's role, or set the feature gate `InstanceIdNodeName`"
    source "aws-sdk-go-v2, captured; amazon-eks-ami, nodeadm"

    ID13 Error "STS refuses the node's credentials"
    cause "The instance has a role, and STS does not tell who it is: the role was deleted, or a service control policy or the policy of a VPC endpoint denies it. The API server then answers `Unauthorized`."
    fix "make sure that the role of the instance profile exists, and that no policy denies sts:GetCallerIdentity"
    source "STS API reference, GetCallerIdentity; aws-iam-authenticator"

    ID08 Error "EC2 gives the instance no private name"
    cause "nodeadm takes the node's name from the private DNS name of the instance, which stays empty while DNS host names of the VPC are off."
    fix "turn on DNS host names and DNS support of the VPC, or set the feature gate `InstanceIdNodeName`"
    source "amazon-eks-ami, nodeadm/internal/system"

    ID11 Warning "the number of pods fell back to 110"
    cause "nodeadm does not know the instance type and may not ask ec2:DescribeInstanceTypes, so it takes 110 pods, more than there are addresses."
    fix "use a newer image, allow ec2:DescribeInstanceTypes, or set `spec.kubelet.maxPods` of the EC2NodeClass"
    source "amazon-eks-ami, nodeadm/internal/kubelet"

    ID12 Error "the clock is wrong"
    cause "Signatures and certificates are refused by a clock that is minutes away: `Signature expired`, `x509: certificate has expired or is not yet valid`, or only `Unauthorized`."
    fix "let chrony use 169.254.169.123, and check that nothing else sets the clock"
    source "kubernetes-sigs/aws-iam-authenticator#330; aws/eks-anywhere#3303"

    EX03 Warning "EC2 reclaims the instance"
    cause "EC2 has sent the two-minute notice of a spot interruption, or recommends to replace the instance."
    fix "nothing on this node: the controller replaces it; allow more instance types and zones if it happens often"
    source "EC2 User Guide, Spot Instance interruption notices"
}
