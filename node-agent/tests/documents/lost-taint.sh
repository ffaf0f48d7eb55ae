#!/bin/bash
/etc/eks/bootstrap.sh shop --kubelet-extra-args='--register-with-taints=karpenter.sh/unregistered:NoExecute'
