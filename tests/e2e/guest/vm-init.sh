#!/bin/sh
# PID 1 of a VM pod's guest: drivers, a guest agent, a power button, an address, and a console that stays open.
export PATH=/bin:/sbin HOME=/root TERM=linux
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm /tmp /run /var/run /mnt
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /tmp
for module in $(cat /modules/order); do
  case "$module $(cat /proc/cmdline)" in virtio_balloon*podfit.balloon=off*) continue ;; esac
  insmod "/modules/$module" 2>/dev/null
done
ifconfig lo up
parameter() { sed -n "s/.*podfit\.$1=\([^ ]*\).*/\1/p" /proc/cmdline; }
hostname "$(parameter hostname)"
address=$(parameter address)
gateway=$(parameter gateway)
if [ -e /sys/class/net/eth0 ]; then
  ip link set eth0 up
  if [ -n "$address" ] && ! grep -q podfit.dhcp /proc/cmdline; then
    ip addr add "$address" dev eth0
    [ -n "$gateway" ] && ip route add default via "$gateway"
  else
    udhcpc -q -n -t 3 -T 1 -i eth0 -s /sbin/dhcp >/dev/null 2>&1 &
  fi
fi
for server in $(parameter dns | tr , ' '); do echo "nameserver $server"; done >>/etc/resolv.conf
[ -n "$(parameter search)" ] && echo "search $(parameter search | tr , ' ')" >>/etc/resolv.conf
[ -n "$(parameter resolver)" ] && echo "options $(parameter resolver | tr , ' ')" >>/etc/resolv.conf
# What cloud-init would read from its NoCloud disk: keys, and user data that is a script.
mkdir -p /seed
for disk in /dev/vd?; do mount -t iso9660 -o ro "$disk" /seed 2>/dev/null && break; done
if [ -e /seed/user-data ]; then
  mkdir -p -m 700 "$HOME/.ssh"
  sed -n 's/.*"public-keys": \["\(.*\)"\].*/\1/p' /seed/meta-data | sed 's/", "/\n/g' >"$HOME/.ssh/authorized_keys"
  if [ "$(head -c 2 /seed/user-data)" = '#!' ]; then
    cat /seed/user-data >/run/user-data && chmod 700 /run/user-data && /run/user-data >/run/user-data.log 2>&1
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
for port in 80 8080; do httpd -p "$port" -h /www; done
echo "PODFIT-GUEST-READY $(nproc) $(sed -n 's/MemTotal: *//p' /proc/meminfo)"
case "$(cat /proc/cmdline)" in *podfit.talk*) while :; do echo "still here"; sleep 1; done & ;; esac
while :; do setsid cttyhack sh -l </dev/ttyS0 >/dev/ttyS0 2>&1; sleep 1; done
