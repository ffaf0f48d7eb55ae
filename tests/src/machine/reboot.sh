# Starts a machine again whose PID 1 has ended, as a reset does: what is on its disk stays, all else begins anew. Given to
# `sh -c` as PID 1 of new namespaces, in the machine's old mount namespace, which has been kept. The host's files cannot be
# seen from there, so what boot.sh has bound is carried over.
set -eu
exec </dev/console >/dev/console 2>&1
mount --make-rprivate /

# The kernel's files of the new processes, with all that lay on the old ones.
mkdir -p /tmp/proc
mount -t proc proc /tmp/proc
mount --bind /tmp/proc/sys /tmp/proc/sys
mount --bind /tmp/proc/sys/net /tmp/proc/sys/net
mount -o remount,bind,ro /tmp/proc/sys
places() { # PREFIX: mount points below it, the innermost last
    cut -d' ' -f5 /tmp/proc/self/mountinfo | grep "^$1/" || :
}
for place in $(places /proc); do
    case $place in /proc/sys | /proc/sys/net) ;; *) mount --bind "$place" "/tmp$place" ;; esac
done
# A boot of its own, by which Nodes and journals tell boots apart.
mkdir -p /var/lib/boot
cat /tmp/proc/sys/kernel/random/uuid >/var/lib/boot/id
mount --bind /var/lib/boot/id /tmp/proc/sys/kernel/random/boot_id
# On top of the old one, of which nothing can be asked any more, not even what is mounted on it.
mount --move /tmp/proc /proc

# What pods and containers had mounted; the ways to the world outside stay.
for below in /var/lib/kubelet /var/lib/containerd /run; do
    for place in $(cut -d' ' -f5 /proc/self/mountinfo | grep "^$below/" | sort -r || :); do
        case $place in /run/host/notify | /run/systemd/journal/syslog) ;; *) umount -l "$place" || : ;; esac
    done
done
find /run /tmp -xdev -mindepth 1 ! -path /run/host/notify ! -path /run/systemd/journal/syslog -delete 2>/dev/null || :
mount --make-rshared /

hostname "$(cat /etc/hostname)"
exec env -i container=muster PATH="$PATH" TERM=dumb NOTIFY_SOCKET=/run/host/notify \
    setpriv --bounding-set=-sys_time,-sys_module,-sys_boot,-syslog,-wake_alarm \
    /lib/systemd/systemd --unit=multi-user.target --show-status=true --log-target=journal
