#!/bin/sh
# Boots one node machine. Called twice: first in the machine's network namespace and the mount namespace of the caller,
# where it only joins the machine's control groups; then as PID 1 of the new namespaces, where it builds the root and
# becomes systemd.
#
#   FOLDER    the machine's folder: root/ and disk/ (mount points), binds (lines `SOURCE TARGET`), files.tar (its own
#             files: seed/ is laid over everything, the rest is bound)
#   LAYERS    the folders laid over the root, the uppermost last
#   CGROUP    the name of its control group in every hierarchy
#   DISK      the size of its disk, as tmpfs takes it
#   CONSOLE   the terminal that is its serial console
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin

if [ "${1:-}" != inside ]; then
    for hierarchy in /sys/fs/cgroup/*/; do
        echo $$ >"$hierarchy$CGROUP/cgroup.procs"
    done
    exec unshare --fork --kill-child=SIGKILL --pid --mount --uts --ipc --cgroup --propagation private \
        /bin/sh "$0" inside
fi
exec <"$CONSOLE" >"$CONSOLE" 2>&1

R=$FOLDER/root
bind() { # SOURCE TARGET: a file or a folder, made when it is missing
    if [ -d "$1" ]; then mkdir -p "$R$2"; else
        mkdir -p "$R${2%/*}"
        [ -e "$R$2" ] || : >"$R$2"
    fi
    mount --bind "$1" "$R$2"
}

# The disk: one file system holds all that the machine writes, so that filling it fills the node as a root volume does.
# An overlay cannot lie on an overlay, so what containerd and the kubelet keep comes from the disk itself.
mount -t tmpfs -o "size=$DISK,mode=755" disk "$FOLDER/disk"
mkdir "$FOLDER/disk/root" "$FOLDER/disk/work" "$FOLDER/disk/kubelet" "$FOLDER/disk/containerd"
mount -t overlay -o "lowerdir=/,upperdir=$FOLDER/disk/root,workdir=$FOLDER/disk/work" root "$R"
rm -rf "$R"/etc/systemd/system/*.wants/ "$R/var/log/journal" "$R/etc/resolv.conf" "$R/etc/fstab"
tar -C "$FOLDER/disk" -xf "$FOLDER/files.tar"
for layer in $LAYERS "$FOLDER/disk/seed"; do cp -a "$layer/." "$R/"; done
bind "$FOLDER/disk/kubelet" /var/lib/kubelet
bind "$FOLDER/disk/containerd" /var/lib/containerd
mount --make-rshared "$R/var/lib/kubelet"

# The kernel's files. The network's settings belong to the machine's own namespace; all others belong to the host, which
# a machine must not touch: it sees them read-only, and the few that a kubelet sets as plain files of its own.
mount -t proc proc "$R/proc"
mount -t sysfs sysfs "$R/sys"
mount --bind "$R/proc/sys" "$R/proc/sys"
mount --bind "$R/proc/sys/net" "$R/proc/sys/net"
mount -o remount,bind,ro "$R/proc/sys"
[ ! -e "$R/proc/sysrq-trigger" ] || bind /dev/null /proc/sysrq-trigger

mount -t tmpfs -o mode=755 cgroup "$R/sys/fs/cgroup"
for hierarchy in /sys/fs/cgroup/*/; do
    name=$(basename "$hierarchy")
    mkdir "$R/sys/fs/cgroup/$name"
    case $name in
    unified) mount -t cgroup2 cgroup2 "$R/sys/fs/cgroup/$name" ;;
    systemd) mount -t cgroup -o none,name=systemd cgroup "$R/sys/fs/cgroup/$name" ;;
    *) mount -t cgroup -o "$name" cgroup "$R/sys/fs/cgroup/$name" ;;
    esac
done
mount -o remount,bind,ro "$R/sys"

mount -t tmpfs -o mode=755 run "$R/run"
mount -t tmpfs -o mode=1777 tmp "$R/tmp"
mount -t tmpfs -o mode=755 dev "$R/dev"
for device in null zero full random urandom tty; do bind "/dev/$device" "/dev/$device"; done
bind /dev/null /dev/kmsg
bind "$CONSOLE" /dev/console
mkdir "$R/dev/pts" "$R/dev/shm" "$R/dev/mqueue"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$R/dev/pts"
mount -t tmpfs -o mode=1777 shm "$R/dev/shm"
mount -t mqueue mqueue "$R/dev/mqueue"
ln -s pts/ptmx "$R/dev/ptmx"
ln -s /proc/self/fd "$R/dev/fd"
ln -s fd/0 "$R/dev/stdin"
ln -s fd/1 "$R/dev/stdout"
ln -s fd/2 "$R/dev/stderr"

while read -r source target; do bind "$source" "$target"; done <"$FOLDER/binds"

hostname "$(cat "$R/etc/hostname")"
cd "$R"
mkdir -p .host
pivot_root . .host
umount -l /.host
rmdir /.host
mount --make-rshared /
# Whatever the machine runs, the host keeps its clock and its kernel.
exec env -i container=muster PATH="$PATH" TERM=dumb NOTIFY_SOCKET=/run/host/notify \
    setpriv --bounding-set=-sys_time,-sys_module,-sys_boot,-syslog,-wake_alarm \
    /lib/systemd/systemd --unit=multi-user.target --show-status=true --log-target=journal
