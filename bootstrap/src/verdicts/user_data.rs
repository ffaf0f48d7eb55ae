//! Verdicts on user data: its encoding, its content, and its readers.

use super::{Severity, Verdict, verdicts};

verdicts! { USER_DATA;
    UD01 Error "no blank line between the headers of a part and its body"
    cause "The first lines of the body are taken for headers, so the part is cut or lost. nodeadm then finds no NodeConfig it can read."
    fix "put an empty line between the headers of the part and its body"
    source "RFC 2046, 5.1; awslabs/amazon-eks-ami#1701"

    UD02 Error "the MIME document is broken"
    cause "A boundary, a header or the `MIME-Version` line is not where it has to be, so a part is skipped or the whole is treated as plain text."
    fix "begin the document with `MIME-Version: 1.0` and `Content-Type: multipart/mixed; boundary=\"//\"`, begin each part with `--//` at the first column, and end with `--//--`"
    source "aws/karpenter-provider-aws#2098, #2009, #5915; canonical/cloud-init#4239"

    UD03 Error "there is no NodeConfig, or no user data at all"
    cause "The user data tells a node which cluster to join. On AL2023 nodeadm starts the node, and takes it from a NodeConfig only."
    fix "add a part with `Content-Type: application/node.eks.aws` that holds a NodeConfig"
    source "amazon-eks-ami, nodeadm/internal/configprovider"

    UD04 Error "the NodeConfig cannot be decoded"
    cause "nodeadm writes a warning for a NodeConfig that it cannot decode, goes on without it, and then fails with `no config in chain`."
    fix "correct the document at the line named; values must have the types of the NodeConfig API"
    source "amazon-eks-ami, nodeadm/internal/configprovider/chain.go"

    UD05 Error "the kind or version of the NodeConfig is wrong"
    cause "nodeadm decodes only kind `NodeConfig` of `node.eks.aws/v1alpha1`."
    fix "write `apiVersion: node.eks.aws/v1alpha1` and `kind: NodeConfig`"
    source "terraform-aws-modules/terraform-aws-eks#2985"

    UD06 Error "a field that is not read"
    cause "The name of a field is misspelt, or its case is wrong. nodeadm ignores such fields silently; Bottlerocket refuses all settings."
    fix "use the name of the field as it is documented; case counts"
    source "awslabs/amazon-eks-ami#2123"

    UD07 Error "a part of the cluster's identity is missing"
    cause "Name, endpoint, certificate authority and service CIDR of the cluster are required; without one of them the node cannot find its cluster."
    fix "fill in the cluster's name, endpoint, certificate authority and service CIDR"
    source "amazon-eks-ami, nodeadm/internal/api/validation.go"

    UD08 Error "the service CIDR is not a network"
    cause "The address of cluster DNS is derived from the service CIDR, so nodeadm stops if it is none."
    fix "write the cluster's service CIDR, such as `10.100.0.0/16` (`aws eks describe-cluster --query cluster.kubernetesNetworkConfig`)"
    source "amazon-eks-ami, nodeadm/internal/api"

    UD09 Error "a configuration of containerd 2 for containerd 1"
    cause "nodeadm merges the configuration into the template of the containerd that the image has, and stops at a version that it does not know: `failed to get config template version`."
    fix "write the configuration for containerd 1 (`version = 2`, `io.containerd.grpc.v1.cri`), or use an image with containerd 2"
    source "amazon-eks-ami, nodeadm/internal/containerd"

    UD10 Error "user data of AL2 on AL2023"
    cause "`/etc/eks/bootstrap.sh` was removed from AL2023; it prints an error and exits with 1."
    fix "replace the script by a NodeConfig, or launch an AL2 image"
    source "awslabs/amazon-eks-ami#2426"

    UD11 Warning "nodeadm is called by hand"
    cause "nodeadm runs by itself: its units configure the node before the scripts of user data, and start the kubelet after them. A second call works on a node that is half made."
    fix "remove the call; what it should have configured belongs in a NodeConfig"
    source "amazon-eks-ami, nodeadm/cmd/nodeadm/init (`Do not manually call nodeadm from user data`)"

    UD17 Error "an option of bootstrap.sh is silently dropped"
    cause "bootstrap.sh reads its options and their values as separate words. `--option=value` and words after the first value are taken for positional arguments and thrown away, without an error; taints and labels in them are lost."
    fix "write the option, a blank, and the whole value in quotes: `--kubelet-extra-args '--node-labels=a=b --register-with-taints=c:NoSchedule'`"
    source "measured on the parser of bootstrap.sh; kubernetes-sigs/karpenter#1635"

    UD18 Error "an option is taken for the name of the cluster"
    cause "The first positional argument of bootstrap.sh is the name of the cluster. Here it is an option, so the node asks for a token of a cluster that does not exist."
    fix "write the name of the cluster first: `/etc/eks/bootstrap.sh my-cluster --kubelet-extra-args '…'`"
    source "terraform-aws-modules/terraform-aws-eks#310"

    UD19 Error "bootstrap.sh is called without a cluster"
    cause "bootstrap.sh exits with `cluster name is not defined!` when no positional argument names one."
    fix "add the name of the cluster after `/etc/eks/bootstrap.sh`"
    source "amazon-eks-ami, AL2 bootstrap.sh"

    UD22 Warning "user data patches a file that the bootstrap writes"
    cause "bootstrap.sh rewrites this file, or reads it before the change is made: the edit races the boot and is lost."
    fix "use the bootstrap's own options (`--containerd-config-file`, `--kubelet-extra-args`), or put the change into the image"
    source "awslabs/amazon-eks-ami#1628"

    UD23 Error "the user data is too large"
    cause "EC2 takes at most 16,384 bytes of user data and refuses the launch."
    fix "compress it with gzip (nodeadm and cloud-init read that), or move scripts into the image"
    source "EC2 User Guide, Run commands at launch"

    UD24 Error "the NodeConfig is inside a nested multipart"
    cause "nodeadm reads the parts of the outermost multipart only; cloud-init reads all, so the script parts run while the NodeConfig is never seen."
    fix "make the NodeConfig a part of the outermost multipart"
    source "eksctl-io/eksctl#7895"

    UD25 Error "a Bottlerocket setting has the wrong type"
    cause "Bottlerocket refuses all settings when one of them has the wrong type, and the node stays without any."
    fix "put values of labels and taints in quotes; a taint is a list of `\"value:Effect\"`"
    source "bottlerocket-os/bottlerocket#2423; settings-sdk, modeled-types/src/kubernetes.rs"

    UD26 Error "the image contains files of a node that had joined"
    cause "The image was made of a machine that had joined a cluster. Its nodes mistake themselves for that one, or skip what runs at the first boot only."
    fix "remove it as the last step of the build, or build from an image that never joined"
    source "aws/eks-hybrid, validation of leftovers"

    UD27 Error "the user data is for another family"
    cause "The image does not run what this document is written for: each family reads its own format only."
    fix "write the document for the family of the image, or launch an image of the family of the document"
    source "EKS User Guide, custom AMIs and launch templates"

    UD28 Error "the certificate authority is not a certificate"
    cause "The text is not base64 of a PEM certificate. nodeadm and bootstrap.sh write it to disk unread, and the kubelet fails when it opens it."
    fix "paste the cluster's `certificateAuthority.data` as it is (`aws eks describe-cluster --query cluster.certificateAuthority.data`)"
    source "amazon-eks-ami, nodeadm (writes the bytes unverified); aws/eks-hybrid, `failed to parse Cluster CA certificate`"

    UD29 Error "the API server endpoint is not an https URL"
    cause "The kubelet takes the endpoint as the server of its kubeconfig; without `https://` it speaks plain HTTP, or cannot connect."
    fix "write the endpoint as `https://…` (`aws eks describe-cluster --query cluster.endpoint`)"
    source "client-go, rest.Config"

    UD30 Error "the user data cannot be decompressed"
    cause "It begins like gzip and breaks off, or unpacks to more than any user data holds. Nothing on the node can read it."
    fix "compress the document again, and check that the tool that uploads it does not cut or encode it twice"
    source "amazon-eks-ami, nodeadm/internal/configprovider (`failed to create GZIP reader`)"

    UD31 Error "the agent's configuration cannot be used"
    cause "The document for the agent in the user data is broken, or a part of it is. The agent skips what it cannot read; it never holds a node back because of it."
    fix "write `AgentConfig` of `muster.dev/v1` as documented, once"
    source "bootstrap/src/agent_config.rs"

    UD32 Error "a value that nodeadm does not know"
    cause "nodeadm does not check the value. It hands a strategy for local disks to `setup-local-disks`, which ends with an error, and the kubelet is not started; other values it drops silently."
    fix "write one of the values named"
    source "amazon-eks-ami, nodeadm/internal/system/local_disk.go, nodeadm/api/v1alpha1"

    UD33 Error "nothing starts the bootstrap"
    cause "On AL2 the node joins when a script of its user data calls /etc/eks/bootstrap.sh. Nothing here does, and nothing else on the image will."
    fix "call `/etc/eks/bootstrap.sh` with the name of the cluster (to a managed node group without an image of its own, and to an EC2NodeClass, the call is added)"
    source "amazon-eks-ami, doc/usage/al2.md; EKS User Guide, custom AMIs and launch templates"

    UD34 Warning "a script that cannot be executed"
    cause "The kernel reads the interpreter off the first bytes of a script. Without `#!` there, for example after a blank line, cloud-init fails with `Exec format error. Missing #! in script?`, and nothing of the script runs."
    fix "let the script begin with `#!/bin/bash`, at the first column of its first line"
    source "execve(2); canonical/cloud-init, cloudinit/subp.py"

    UD35 Warning "a setting of AL2 that AL2023 does not read"
    cause "AL2's bootstrap.sh read it. On AL2023 nodeadm starts the kubelet, and reads NodeConfig documents only."
    fix "set it in a NodeConfig: `spec.kubelet.config` or `spec.kubelet.flags`"
    source "terraform-aws-modules/terraform-aws-eks#3420, #3186; amazon-eks-ami, doc/usage/al2023.md"

    UD36 Error "the name of the cluster is invalid"
    cause "A cluster's name has up to 100 letters, digits, `-` and `_`. A name with other characters is often a placeholder that was not filled in; the node asks for a token of a cluster that does not exist, and is `Unauthorized`."
    fix "write the name of the cluster (`aws eks list-clusters`)"
    source "EKS API reference, CreateCluster"

    UD37 Error "the user data of an EC2NodeClass is encoded"
    cause "`spec.userData` of an EC2NodeClass is plain text. Karpenter and Muster merge their own part with it and encode the whole; what is already base64 they take for a script, which cannot be executed, or refuse."
    fix "write the text itself in `spec.userData` (in Terraform: without `base64encode`)"
    source "Karpenter documentation, EC2NodeClass, spec.userData"

    UD38 Error "a value that bootstrap.sh refuses"
    cause "bootstrap.sh of AL2 checks a few of its options, writes an error to its log and exits before it has set up the kubelet."
    fix "write a value that bootstrap.sh takes"
    source "amazon-eks-ami, AL2 bootstrap.sh"

    ID10 Error "FIPS endpoints are requested that the region does not have"
    cause "With `AWS_USE_FIPS_ENDPOINT` every program of the node talks to `…-fips.REGION.amazonaws.com`. Where there is none, nodeadm waits for EC2 until it gives up."
    fix "remove `AWS_USE_FIPS_ENDPOINT`, or run in a region with FIPS endpoints, with VPC endpoints for them"
    source "awslabs/amazon-eks-ami#2568; aws.amazon.com/compliance/fips"

    ID09 Warning "a proxy is exported where nodeadm does not see it"
    cause "nodeadm runs before the scripts of user data, so a proxy that a script exports comes too late for it, and for the kubelet and containerd that it starts."
    fix "set the proxy in `spec.instance.environment.default` of the NodeConfig"
    source "awslabs/amazon-eks-ami#2127, #2128"
}
