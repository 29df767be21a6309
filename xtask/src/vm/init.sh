#!/bin/busybox sh
# The first process of a guest: mounts what tests need, runs them, says how they ended, and switches the machine off.
export PATH=/bin:/sbin:/busybox HOME=/root TMPDIR=/run/tmp RATELIMIT_GUEST=1
/bin/busybox mkdir /busybox
/bin/busybox --install -s /busybox
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts && mount -t devpts devpts /dev/pts
ln -s /proc/self/fd /dev/fd
mount -t tmpfs tmpfs /run && mkdir /run/tmp
mount -t tmpfs tmpfs /tmp
mount -t bpf bpf /sys/fs/bpf
/bin/ip link set lo up
modprobe virtio_pci && modprobe virtio_net
# Nobody asks for its device file before that is there.
modprobe tun
{
    read -r seconds rest </proc/uptime
    echo "guest: Linux $(uname -r), up after $seconds s"
    /tests </dev/null
    echo "guest: the tests ended with status $?"
} >/dev/ttyS1 2>&1
poweroff -f
