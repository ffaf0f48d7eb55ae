#!/usr/bin/env bash
source /etc/os-release
if [ -f /etc/eks/bootstrap.sh ]; then
  sudo /etc/eks/bootstrap.sh "${CLUSTER}" --kubelet-extra-args "--node-labels=x=y"
fi
