# Given to `sh -c` in the machine's network namespace: empties its control groups, joins them, and boots it again by
# reboot.sh, in INSIDE, in the mount namespace MOUNTS.
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
for hierarchy in /sys/fs/cgroup/*/; do
    find "$hierarchy$CGROUP" -mindepth 1 -depth -type d -exec rmdir {} + || :
    echo $$ >"$hierarchy$CGROUP/cgroup.procs"
done
exec nsenter --mount="$MOUNTS" unshare --fork --kill-child=SIGKILL --pid --uts --ipc --cgroup /bin/sh -c "$INSIDE"
