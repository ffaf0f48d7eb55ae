#!/bin/bash
set -ex
B64_CLUSTER_CA=@CA@
API_SERVER_URL=https://x.gr7.eu-west-1.eks.amazonaws.com
/etc/eks/bootstrap.sh my-cluster --kubelet-extra-args '--node-labels=a=b,c=d --register-with-taints=k=v:NoSchedule --max-pods=58' --use-max-pods false --b64-cluster-ca $B64_CLUSTER_CA --apiserver-endpoint $API_SERVER_URL --dns-cluster-ip 10.100.0.10 --ip-family ipv4
