#!/usr/bin/env bash
# As EKS's script of this name: the same parser (options take their value as the next word, what is no option is the
# cluster's name), the same files. Without what needs AWS: local disks, IPv6, Outposts, DescribeCluster.
set -o pipefail -o nounset -o errexit

err_report() { echo "[eks-bootstrap] ERROR: Exited with error on line $1"; }
trap 'err_report $LINENO' ERR
log() { echo "[eks-bootstrap] $1: $2"; }

POSITIONAL=()
APISERVER_ENDPOINT='' B64_CLUSTER_CA='' DNS_CLUSTER_IP='' KUBELET_EXTRA_ARGS='' USE_MAX_PODS=true
while [[ $# -gt 0 ]]; do
    case "$1" in
    --apiserver-endpoint) APISERVER_ENDPOINT=$2; shift 2 ;;
    --b64-cluster-ca) B64_CLUSTER_CA=$2; shift 2 ;;
    --dns-cluster-ip) DNS_CLUSTER_IP=$2; shift 2 ;;
    --kubelet-extra-args) KUBELET_EXTRA_ARGS=$2; shift 2 ;;
    --use-max-pods) USE_MAX_PODS=$2; shift 2 ;;
    --container-runtime)
        [[ $2 == containerd ]] || {
            log ERROR 'containerd is the only supported container runtime as of Kubernetes version 1.24'
            exit 1
        }
        shift 2
        ;;
    *) POSITIONAL+=("$1"); shift ;;
    esac
done
set +u
set -- "${POSITIONAL[@]}"
CLUSTER_NAME=$1
set -u
if [[ -z $CLUSTER_NAME ]]; then
    log ERROR 'cluster name is not defined!'
    exit 1
fi
if [[ -z $APISERVER_ENDPOINT || -z $B64_CLUSTER_CA ]]; then
    log ERROR 'Exhausted retries while describing cluster!'
    exit 3
fi

REGION=$(imds meta-data/placement/region)
ZONE=$(imds meta-data/placement/availability-zone)
INSTANCE_ID=$(imds meta-data/instance-id)
INSTANCE_TYPE=$(imds meta-data/instance-type)
INTERNAL_IP=$(imds meta-data/local-ipv4)
PRIVATE_DNS_NAME=$(imds meta-data/local-hostname)

mkdir -p /etc/kubernetes/pki /etc/kubernetes/kubelet /etc/systemd/system/kubelet.service.d /var/lib/kubelet
base64 -d <<<"$B64_CLUSTER_CA" >/etc/kubernetes/pki/ca.crt
cat >/var/lib/kubelet/kubeconfig <<KUBECONFIG
apiVersion: v1
kind: Config
clusters: [{name: kubernetes, cluster: {server: "$APISERVER_ENDPOINT", certificate-authority: /etc/kubernetes/pki/ca.crt}}]
current-context: kubelet
contexts: [{name: kubelet, context: {cluster: kubernetes, user: kubelet}}]
users:
  - name: kubelet
    user:
      exec:
        apiVersion: client.authentication.k8s.io/v1beta1
        command: /usr/bin/aws
        args: [eks, get-token, --cluster-name, "$CLUSTER_NAME", --region, "$REGION"]
KUBECONFIG

if [[ -z $DNS_CLUSTER_IP ]]; then
    DNS_CLUSTER_IP=10.100.0.10
    [[ $INTERNAL_IP == 10.* ]] && DNS_CLUSTER_IP=172.20.0.10
fi
MAX_PODS=110
if [[ $USE_MAX_PODS == true ]]; then
    MAX_PODS=$(awk -v type="$INSTANCE_TYPE" '$1 == type { print $2 }' /etc/eks/eni-max-pods.txt)
    if [[ -z $MAX_PODS ]]; then
        log INFO "No entry for type '$INSTANCE_TYPE' in /etc/eks/eni-max-pods.txt"
        MAX_PODS=110
    fi
fi
cat >/etc/kubernetes/kubelet/kubelet-config.json <<CONFIG
{
  "kind": "KubeletConfiguration",
  "apiVersion": "kubelet.config.k8s.io/v1beta1",
  "address": "0.0.0.0",
  "authentication": {"anonymous": {"enabled": false}, "webhook": {"cacheTTL": "2m0s", "enabled": true},
    "x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"}},
  "authorization": {"mode": "Webhook", "webhook": {"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"}},
  "clusterDomain": "cluster.local",
  "clusterDNS": ["$DNS_CLUSTER_IP"],
  "hairpinMode": "hairpin-veth",
  "readOnlyPort": 0,
  "cgroupDriver": "systemd",
  "cgroupRoot": "/",
  "failCgroupV1": false,
  "providerID": "aws:///$ZONE/$INSTANCE_ID",
  "protectKernelDefaults": true,
  "serializeImagePulls": false,
  "evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"},
  "kubeReserved": {"cpu": "70m", "ephemeral-storage": "1Gi", "memory": "$((255 + 11 * MAX_PODS))Mi"},
  "maxPods": $MAX_PODS
}
CONFIG
cat >/etc/systemd/system/kubelet.service.d/10-kubelet-args.conf <<DROPIN
[Service]
Environment='KUBELET_ARGS=--node-ip=$INTERNAL_IP --v=2 --hostname-override=$PRIVATE_DNS_NAME --cloud-provider=external'
DROPIN
if [[ -n $KUBELET_EXTRA_ARGS ]]; then
    cat >/etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf <<DROPIN
[Service]
Environment='KUBELET_EXTRA_ARGS=$KUBELET_EXTRA_ARGS'
DROPIN
fi
systemctl daemon-reload
systemctl start containerd
systemctl enable kubelet
systemctl start kubelet
log INFO 'complete!'
