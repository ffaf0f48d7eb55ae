//! Verdicts on the connection to the API server and the node's identity there, found on the node.

use super::{Severity, Verdict, verdicts};

verdicts! { NETWORK;
    NW01 Error "the API server's name is not known"
    cause "DNS has no address for the endpoint: the cluster is gone, the endpoint is private and the VPC's DNS is off, or other name servers are asked."
    fix "check the endpoint (`aws eks describe-cluster --query cluster.endpoint`), and DNS support and DNS host names of the VPC"
    source "EKS User Guide, cluster endpoint access"

    NW02 Error "the API server does not answer"
    cause "Packets to the API server are lost: a security group, a network ACL, no route, or a public endpoint that does not list the NAT address."
    fix "allow port 443 from the node's security group to the cluster's, and check the subnet's routes"
    source "EKS User Guide, security group requirements"

    NW03 Error "there is no way to the API server"
    cause "The connection is refused, or the node has no route: another port or endpoint, no default route, or an interface that came late."
    fix "check the endpoint, and the routes of the node (`ip route`) and its subnet"
    source "awslabs/amazon-eks-ami#2324, #2419, #2475"

    NW04 Error "the API server's certificate is of another authority"
    cause "The certificate authority in the user data did not sign it: the data of two clusters are mixed, or a proxy opens TLS."
    fix "paste the cluster's own `certificateAuthority.data`, and take the endpoint out of any proxy"
    source "EKS User Guide, troubleshooting"

    NW05 Error "the API server's certificate is for another name"
    cause "The endpoint is written with an address or an alias that the certificate does not have."
    fix "use the endpoint as EKS gives it (`aws eks describe-cluster --query cluster.endpoint`)"
    source "RFC 6125"

    NW07 Error "the user data is of another cluster"
    cause "The instance was launched for one cluster, by its tags, and its user data names another one, which does not know it."
    fix "give the instance the user data of its own cluster: name, endpoint and certificate authority belong together"
    source "aws/karpenter-provider-aws, tag `eks:eks-cluster-name`; EKS, tag `aws:eks:cluster-name`"

    NW10 Error "a network interface is not configured"
    cause "systemd-networkd does not finish an interface. nodeadm's boot hook waits for all of them for a minute, and what comes after it waits too."
    fix "look at `networkctl status` of the interface, and at what else configures it; many interfaces (EFA) need a newer image"
    source "awslabs/amazon-eks-ami#2423, #2436"

    NW11 Error "the cluster is of IPv6, and the instance has no such address"
    cause "The service CIDR is IPv6, so the kubelet is told an IPv6 address of the node, and metadata has none: the subnet gives IPv4 addresses only."
    fix "use subnets with an IPv6 CIDR that assign addresses on creation, in the EC2NodeClass"
    source "amazon-eks-ami, nodeadm/internal/kubelet (node-ip)"

    WN10 Error "the service network overlaps the VPC"
    cause "On Windows HNS routes the service network by itself: what the VPC has at these addresses is not reached from pods, and the node joins in some VPCs only."
    fix "give the cluster a service CIDR outside of the VPC's, and name it in `-ServiceCIDR`"
    source "EKS documentation, service CIDR; aws-quickstart/cdk-eks-blueprints#193"

    NW08 Warning "the API server is busy"
    cause "It answers `too many requests`, as when hundreds of nodes join at once. Clients try again."
    fix "nothing, if it goes away; else look at priority and fairness of the API server"
    source "kubernetes.io, API priority and fairness"

    NW09 Error "a webhook refuses the Node"
    cause "An admission webhook for nodes denied the request, or cannot be reached while the nodes that run it are gone."
    fix "take nodes out of the webhook's rules, or set its failure policy to Ignore"
    source "kyverno/kyverno#11122"

    NW13 Error "the API server answers with an error"
    cause "Something answers at the endpoint that is not an API server in good health."
    fix "check the endpoint and the health of the cluster"
    source "kubernetes.io, API server health endpoints"

    AU01 Error "the API server does not know the node's role"
    cause "The role of the instance is in no access entry and not in aws-auth, or it stands there with a path, or as an instance profile; every request ends with `Unauthorized`."
    fix "add an access entry of type EC2_LINUX (Windows: EC2_WINDOWS) for the role of the node, by its ARN without a path"
    source "awslabs/amazon-eks-ami#1837, #1376; aws/karpenter-provider-aws#1225, #3218"

    AU04 Error "the node's role is not one of nodes"
    cause "The API server knows the role, and does not count it among `system:nodes`: the access entry is of type STANDARD, or its mapping lacks the groups."
    fix "make the access entry of type EC2_LINUX, or map the role to `system:bootstrappers` and `system:nodes`"
    source "aws/eks-hybrid, internal/kubernetes validation"

    AU07 Error "the node's name is not the one of its credentials"
    cause "The API server lets a node touch only the Node of the name that its credentials give, and that is another one: a custom DHCP domain, `{{SessionName}}` in the mapping, or `InstanceIdNodeName` on one side only."
    fix "let `--hostname-override` be what the access entry gives: the private DNS name, or the instance ID with `InstanceIdNodeName`"
    source "aws/karpenter-provider-aws#7508; awslabs/amazon-eks-ami#1263, #1264"

    AU09 Warning "the kubelet has no serving certificate"
    cause "Its request for one was not approved; logs, exec and metrics of the node fail."
    fix "check that the approver of EKS runs, and that the node's name and addresses are those of the instance"
    source "aws/karpenter-provider-aws#5706"

    AU10 Error "the program that makes the node's token fails"
    cause "The kubelet runs the command of its kubeconfig for a token, and it is not there, or ends with an error: no role, no region, a broken installation."
    fix "run the command that is named, as root, and correct what it says"
    source "client-go, exec credential plugins; amazon-eks-ami"

    AU11 Error "the kubeconfig speaks an old version of the credential API"
    cause "Kubelets of 1.24 and later refuse `client.authentication.k8s.io/v1alpha1`."
    fix "write `client.authentication.k8s.io/v1beta1` in the kubeconfig, or use a newer image"
    source "client-go, exec credential plugins"

    AU12 Error "the API server refuses labels of the node"
    cause "NodeRestriction forbids a kubelet to set labels under `node-restriction.kubernetes.io`, and others after it has registered."
    fix "remove them from `--node-labels`; let the NodePool set them"
    source "kubernetes/kubernetes#90307; siderolabs/talos#6750"

    AU13 Error "there was a Node of this name already"
    cause "The kubelet takes an old Node object for its own and does not apply its taints to it."
    fix "delete the Node object and restart the kubelet; find out why it was not deleted with its instance"
    source "k8s.io/kubernetes, pkg/kubelet/kubelet_node_status.go"

    AU16 Warning "the cloud controller has not initialized the node"
    cause "`node.cloudprovider.kubernetes.io/uninitialized` stays until the cloud controller has found the instance by its name."
    fix "check that the node's name is the instance's private DNS name or ID, and the cloud controller's log"
    source "aws/karpenter-provider-aws#7426, #8106; awslabs/amazon-eks-ami#1446"
}
