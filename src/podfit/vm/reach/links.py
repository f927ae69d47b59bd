"""Sets up the links of a VM pod's network namespace: a bridge, the pod's own link, and the guest's tap device.

Bridged, the guest has the pod's address and MAC. A guest that was migrated keeps the address it had on the other node:
then the pod's link keeps its own address, and packets are translated between the two, in the pod's namespace.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import struct
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path

from podfit.podnet.kernel import namespaces
from podfit.vm.reach.dhcp import Lease

TAP, BRIDGE, LINK = "tap0", "br0", "eth0"
_BROADCAST, _ARP = b"\xff" * 6, 0x0806
_ANNOUNCED_S = (0.0, 0.5, 2.0)
"""Packets get lost: the gateway's new MAC is announced repeatedly."""


def tap_of(uid: str) -> str:
    """The name of a pod's tap device among all devices of a libvirt daemon's network namespace."""
    return f"pftap{hashlib.sha256(uid.encode()).hexdigest()[:10]}"


async def ip(namespace: Path, *words: str) -> bytes:
    """Runs `ip` in a network namespace. Raises OSError with its output."""
    return await _run(namespace, "ip", *words)


async def _run(namespace: Path, *words: str, stdin: bytes | None = None) -> bytes:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "nsenter", f"--net={namespace}", *words, stdin=pipe if stdin is not None else None, stdout=pipe, stderr=pipe
    )
    output, errors = await process.communicate(stdin)
    if process.returncode:
        raise OSError(f"{' '.join(words)}: {errors.decode(errors='replace').strip()}")
    return output


async def _steps(namespace: Path, *steps: str) -> None:
    for step in steps:
        await ip(namespace, *step.split())


async def bridged(namespace: Path, mac: str) -> Lease:
    """Moves the pod's address and MAC from its link to the guest, and puts the link on a bridge."""
    link = next(listed for listed in json.loads(await ip(namespace, "-j", "addr", "show", "dev", LINK)) if listed)
    address = next(entry for entry in link["addr_info"] if entry["family"] == "inet")
    routes = json.loads(await ip(namespace, "-j", "route", "show", "default"))
    gateway = str(routes[0].get("gateway", "")) if routes else ""
    lease = Lease(str(address["local"]), int(address["prefixlen"]), gateway, str(link["address"]), int(link["mtu"]))
    await _steps(
        namespace,
        f"link add {BRIDGE} type bridge forward_delay 0 mcast_snooping 0",
        f"addr flush dev {LINK}",
        f"link set {LINK} down",
        f"link set {LINK} address {mac}",
        f"link set {LINK} master {BRIDGE} up",
        f"link set {BRIDGE} up",
    )
    return lease


async def translated(namespace: Path, outer: Lease, inner: Lease) -> None:
    """Gives the pod's link its address back. The guest keeps `inner`, behind it: ARP requests of the guest are answered
    as if all of its old network were here."""
    await _steps(
        namespace,
        f"link set {LINK} nomaster down",
        f"link set {LINK} address {outer.mac}",
        f"link set {LINK} up",
        f"addr replace {outer.address}/{outer.prefix} dev {LINK}",
    )
    if outer.gateway:
        await ip(namespace, "route", "replace", "default", "via", outer.gateway, "dev", LINK, "onlink")
    await ip(namespace, "route", "replace", f"{inner.address}/32", "dev", BRIDGE)
    await namespaces.in_thread(lambda: _forward(namespace))
    rules = f"""table ip podfit-vm {{}}
delete table ip podfit-vm
table ip podfit-vm {{
  chain in {{
    type nat hook prerouting priority dstnat
    iifname "{LINK}" ip daddr {outer.address} dnat to {inner.address}
  }}
  chain out {{
    type nat hook postrouting priority srcnat
    oifname "{LINK}" ip saddr {inner.address} snat to {outer.address}
  }}
}}
"""
    await _run(namespace, "nft", "-f", "-", stdin=rules.encode())


def _forward(namespace: Path) -> None:
    """Moves the calling thread into the namespace."""
    namespaces.enter(namespace)
    values = {
        "conf/all/forwarding": "1",
        "conf/all/rp_filter": "0",
        f"conf/{BRIDGE}/rp_filter": "0",
        f"conf/{LINK}/rp_filter": "0",
        f"conf/{BRIDGE}/proxy_arp": "1",
        f"neigh/{BRIDGE}/proxy_delay": "0",
    }
    for name, value in values.items():
        Path("/proc/sys/net/ipv4", name).write_text(value)


# --- the tap device
async def add_tap(namespace: Path, name: str) -> None:
    await ip(namespace, "tuntap", "add", name, "mode", "tap")


async def remove_tap(namespace: Path, name: str) -> None:
    with suppress(OSError):
        await ip(namespace, "link", "delete", name)


async def has(namespace: Path, name: str) -> bool:
    try:
        await ip(namespace, "link", "show", "dev", name)
    except OSError:
        return False
    return True


async def move_tap(outside: Path, name: str, namespace: Path) -> None:
    """Moves the tap device to the pod's namespace. QEMU has it open, and continues to use it there."""
    await ip(outside, "link", "set", name, "netns", str(namespace))


async def join_tap(namespace: Path, name: str, mtu: int) -> None:
    await ip(namespace, *f"link set {name} mtu {mtu} master {BRIDGE} up".split())


async def announce(namespace: Path, gateway: str) -> None:
    """Announces the gateway to a guest that still has the MAC of the old node's gateway."""
    for pause in _ANNOUNCED_S:
        await asyncio.sleep(pause)
        with suppress(OSError):
            await namespaces.in_thread(lambda: _announce(namespace, gateway))


def _announce(namespace: Path, gateway: str) -> None:
    namespaces.enter(namespace)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ARP)) as raw:
        raw.bind((BRIDGE, _ARP))
        raw.send(gratuitous_arp(gateway, raw.getsockname()[4]))


def gratuitous_arp(address: str, mac: bytes) -> bytes:
    owner = mac + IPv4Address(address).packed
    return _BROADCAST + mac + struct.pack("!HHHBBH", _ARP, 1, 0x0800, 6, 4, 2) + owner + owner
