//! Verdicts on the kubelet: its arguments, its configuration, and the settings in effect.

use super::{Severity, Verdict, verdicts};

verdicts! { KUBELET;
    KA01 Error "a flag that this kubelet no longer has"
    cause "The flag was removed. The kubelet exits with `unknown flag`, and systemd restarts it forever."
    fix "remove the flag"
    source "k8s.io/kubernetes, cmd/kubelet/app/options by version"

    KA02 Error "a flag that no kubelet has"
    cause "The name is misspelt, or it is the name of a field of the configuration file. The kubelet exits with `unknown flag`."
    fix "correct the name of the flag, or move the setting to the kubelet's configuration"
    source "k8s.io/kubernetes, cmd/kubelet/app/options by version"

    KA03 Error "a taint that the kubelet refuses"
    cause "A taint is `key[=value]:Effect` with effect `NoSchedule`, `PreferNoSchedule` or `NoExecute`. Quotes that survive every layer become part of it. The kubelet exits."
    fix "write `key=value:Effect`, several with commas and without blanks, and no quotes inside quotes"
    source "k8s.io/kubernetes, pkg/util/taints"

    KA04 Error "an argument that is not a flag"
    cause "A blank, often after a comma, splits a value in two, and the kubelet exits with `unknown command` at the second half."
    fix "remove the blank, or put the whole value in quotes"
    source "measured with systemd 252; cmd/kubelet/app/server.go"

    KA05 Error "a line end cuts off the arguments"
    cause "A flag holds a line end. The environment file or drop-in that is made of it ends there, and every flag after it is lost silently."
    fix "write each flag on one line (in YAML: no `|` block); pass several flags as several items"
    source "measured with systemd 252"

    KA06 Error "a label that the kubelet refuses"
    cause "A label's value has at most 63 letters, digits, `-`, `_` and `.`. A value that is longer or has blanks is often two flags fused by a quote. The kubelet exits with `invalid node labels`."
    fix "correct the label, and look for a quote too many before it"
    source "k8s.io/apimachinery, pkg/util/validation; measured with systemd 252"

    KA07 Error "a required taint is not in effect"
    cause "The node registers without a taint that it must start with, so pods land on it before it is ready. A flag replaces the whole list of the configuration file; an option that is dropped takes its taints with it."
    fix "set all taints in one place: in one `--register-with-taints` flag, or in `registerWithTaints` without such a flag"
    source "kubernetes-sigs/karpenter#1635; aws/karpenter-provider-aws#7399, #7486"

    KA08 Error "taints are set in two places"
    cause "A second `--register-with-taints` replaces the first, and any such flag replaces `registerWithTaints` of the configuration. They are never merged."
    fix "keep one list with all taints"
    source "k8s.io/kubernetes, pkg/util/flag/flags.go"

    KA09 Error "a label that a kubelet may not give itself"
    cause "Of the labels under `kubernetes.io` and `k8s.io` a kubelet may set a few. With another one it exits."
    fix "use a label of your own domain, or let the NodePool set it (Muster and Karpenter apply it when the node registers)"
    source "k8s.io/kubernetes, pkg/kubelet/apis/well_known_labels.go"

    KA10 Error "a feature gate that this kubelet refuses"
    cause "The gate does not exist in this version, or it is locked to its value. The kubelet exits."
    fix "remove the gate"
    source "k8s.io/kubernetes, pkg/features by version"

    KA11 Error "the kubelet's configuration cannot be read"
    cause "A value has a type that the kubelet cannot decode, or the file is not YAML or JSON. The kubelet exits with `failed to load kubelet config file`."
    fix "correct the value at the line named"
    source "k8s.io/kubelet, config/v1beta1 by version"

    KA12 Error "a file of the kubelet's configuration does not say what it is, or cannot be merged"
    cause "Each file must say `apiVersion: kubelet.config.k8s.io/v1beta1` and `kind: KubeletConfiguration`, and a drop-in must be JSON or YAML with values of the right types. Else the kubelet exits with `failed to merge kubelet configs`."
    fix "correct the line named"
    source "k8s.io/kubernetes, cmd/kubelet/app/server.go (mergeKubeletConfigurations)"

    KA13 Warning "a field of the kubelet's configuration that this kubelet does not read"
    cause "The kubelet decodes strictly, fails, decodes again leniently and writes a warning: the setting has no effect."
    fix "correct the name of the field, or remove it"
    source "k8s.io/kubelet, config/v1beta1 by version"

    KA14 Error "the kubelet's configuration contradicts itself"
    cause "The kubelet validates its configuration and exits with `invalid configuration`."
    fix "correct the setting named"
    source "k8s.io/kubernetes, pkg/kubelet/apis/config/validation"

    KA15 Error "reserved CPUs and reserved cgroups together"
    cause "`reservedSystemCPUs` excludes `systemReservedCgroup` and `kubeReservedCgroup`, which EKS images set to `/system` and `/runtime`. The kubelet exits."
    fix "blank both: `systemReservedCgroup: \"\"` and `kubeReservedCgroup: \"\"`"
    source "amazon-eks-ami, nodeadm e2e case kubelet-config-set-empty"

    KA16 Error "the built-in cloud provider is gone"
    cause "`--cloud-provider=aws` has been refused since 1.27."
    fix "write `--cloud-provider=external`, or leave the flag to the bootstrap"
    source "k8s.io/kubernetes, cmd/kubelet/app/server.go"

    KA18 Error "this kubelet refuses cgroup v1"
    cause "AL2 runs on cgroup v1, and a kubelet of 1.35 or later does not start there."
    fix "use AL2023, or set `failCgroupV1: false` until then"
    source "kubernetes/kubernetes#133779"

    KA20 Error "the state of a CPU or memory manager is in the image"
    cause "The kubelet compares the file with its policy and exits if they differ: `configured policy \"static\" differs from state checkpoint policy \"none\"`."
    fix "remove the file as the last step of the build"
    source "bottlerocket-os/bottlerocket#1465; k8s.io/kubernetes, pkg/kubelet/cm/cpumanager"

    KA24 Error "a file for another architecture"
    cause "A program for another architecture cannot be executed: `exec format error`, systemd status 203/EXEC."
    fix "use the build for the architecture of the instances"
    source "systemd.exec(5), exit codes; execve(2)"

    KA25 Error "the credential provider for images is missing"
    cause "The kubelet asks it for access to ECR; nodeadm stops without it: `image credential provider binary was not found on path`."
    fix "install ecr-credential-provider, or build from an EKS image"
    source "amazon-eks-ami, nodeadm/internal/kubelet"

    KA29 Error "cluster DNS is outside of the service network"
    cause "Pods use a DNS address that no Service of the cluster can have. The node is Ready, and names do not resolve."
    fix "remove `clusterDNS` (it is derived from the service CIDR), or write the ClusterIP of kube-dns"
    source "amazon-eks-ami, nodeadm (clusterDNS is the tenth address of the service CIDR)"

    KA30 Warning "the number of pods is set where it does not count"
    cause "Something later in the chain replaces it, so the node takes another number of pods than the document seems to say."
    fix "set `spec.kubelet.maxPods` of the EC2NodeClass"
    source "aws/karpenter-provider-aws#6890, #2273, #6353"

    KA31 Error "the kubelet would not register the node"
    cause "With `registerNode: false`, or without a kubeconfig, the kubelet runs alone and says nothing about it; the Node never appears."
    fix "remove `--register-node=false` and `registerNode: false`, and keep `--kubeconfig`"
    source "k8s.io/kubernetes, cmd/kubelet/app/server.go"

    KA33 Error "a flag's value cannot be parsed"
    cause "The value does not have the type of the flag, or there is none. The kubelet exits with `invalid argument` or `flag needs an argument`."
    fix "write a value of the type named"
    source "k8s.io/kubernetes, cmd/kubelet/app/options; spf13/pflag"

    KA34 Error "quotes lose a part of the arguments"
    cause "bootstrap.sh puts the arguments between single quotes in a drop-in of systemd. A quote inside ends them early, so the rest, or all of it, is dropped silently. PowerShell ends an argument that begins with a quote at the next one."
    fix "use double quotes inside `--kubelet-extra-args '…'` or `-KubeletExtraArgs '…'`, and close each of them"
    source "systemd.exec(5), Environment=; measured with systemd 252"

    KA35 Error "a required label is not in effect"
    cause "The node registers without a label that something waits for."
    fix "add the label to `--node-labels`, once, in one of the flags"
    source "k8s.io/kubernetes, cmd/kubelet/app/options"

    KA36 Error "a program that a node needs is missing"
    cause "The image lacks it, so the node never starts its kubelet or its containers."
    fix "install it, or build from an EKS image"
    source "amazon-eks-ami, AL2023 image layout; EKS User Guide, Windows images"
}
