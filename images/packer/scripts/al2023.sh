#!/bin/sh
# Installs the agent in an EKS image of AL2023, makes the image forget that it has run, and judges it. Runs as root.
#
#   NATIVE  true if the agent is to run the bootstrap, in place of nodeadm
set -eu

rpm --upgrade --verbose /tmp/muster-agent.rpm
if [ "$NATIVE" = true ]; then
    rpm --upgrade --verbose /tmp/muster-agent-native.rpm
fi
rm -f /tmp/muster-agent.rpm /tmp/muster-agent-native.rpm

# This machine has booted: it has a name, and cloud-init has been here. Its children must have their own.
cloud-init clean --logs
truncate -s 0 /etc/machine-id

case $(uname -m) in
aarch64) arch=arm64 ;;
*) arch=amd64 ;;
esac
# A finding of severity `error` ends the build: exit code 1.
muster-agent validate --image --ami-family AL2023 --arch "$arch" --kubelet /usr/bin/kubelet
