#!/bin/sh
# PID 1 of a VM pod's guest: drivers, a guest agent, a power button, an address, and a console that stays open.
export PATH=/bin:/sbin HOME=/root TERM=linux
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm /tmp /run /var/run /mnt
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /tmp
for module in $(cat /modules/order); do insmod "/modules/$module" 2>/dev/null; done
ifconfig lo up
hostname "$(sed -n 's/.*podfit.hostname=\([^ ]*\).*/\1/p' /proc/cmdline)"
address=$(sed -n 's/.*podfit.address=\([^ ]*\).*/\1/p' /proc/cmdline)
gateway=$(sed -n 's/.*podfit.gateway=\([^ ]*\).*/\1/p' /proc/cmdline)
if [ -e /sys/class/net/eth0 ]; then
  ip link set eth0 up
  if [ -n "$address" ] && ! grep -q podfit.dhcp /proc/cmdline; then
    ip addr add "$address" dev eth0
    [ -n "$gateway" ] && ip route add default via "$gateway"
  else
    udhcpc -q -n -t 3 -T 1 -i eth0 -s /sbin/dhcp >/dev/null 2>&1 &
  fi
fi
acpid -d -c /etc/acpi >/dev/null 2>&1 &
agent=
for port in /sys/class/virtio-ports/*; do
  [ "$(cat "$port/name" 2>/dev/null)" = org.qemu.guest_agent.0 ] && agent=/dev/${port##*/}
done
[ -n "$agent" ] && case "$(cat /proc/cmdline)" in
  *podfit.agent=off*) ;;
  *) while :; do qemu-ga -m virtio-serial -p "$agent" -t /run -f /run/qga.pid >/tmp/qga.log 2>&1; sleep 1; done & ;;
esac
httpd -p 8080 -h /www
echo "PODFIT-GUEST-READY $(nproc) $(sed -n 's/MemTotal: *//p' /proc/meminfo)"
while :; do setsid cttyhack sh -l </dev/ttyS0 >/dev/ttyS0 2>&1; sleep 1; done
