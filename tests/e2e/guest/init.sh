#!/bin/sh
# PID 1 of the guest: a machine with cgroup v2 and nothing else, which runs the runtime's contract suite and goes off.
export PATH=/bin:/sbin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
insmod /overlay.ko
ifconfig lo up
export PYTHONPATH=/podfit/src:/site PYTHONDONTWRITEBYTECODE=1
cd /tmp
echo "PODFIT-GUEST-BEGIN $(cat /sys/fs/cgroup/cgroup.controllers)"
python3 -m pytest -o asyncio_mode=auto -o asyncio_default_fixture_loop_scope=function --import-mode=importlib -p no:cacheprovider \
    -k "process and not [cri]" -v --tb=short -rs --color=no /podfit/tests
echo "PODFIT-GUEST-EXIT $?"
poweroff -f
