#!/bin/bash -xe
exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1
/etc/eks/bootstrap.sh 'shop' --apiserver-endpoint 'https://x.gr7.eu-west-1.eks.amazonaws.com' --b64-cluster-ca '@CA@' \
--dns-cluster-ip '10.100.0.10' \
--use-max-pods false \
--kubelet-extra-args '--node-labels="karpenter.sh/nodepool=x" --register-with-taints="karpenter.sh/unregistered:NoExecute" --max-pods=110'
