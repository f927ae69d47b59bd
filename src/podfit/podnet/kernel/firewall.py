"""The node's own nftables table: NAT for pods, their host ports, and Service addresses redirected to the host.

One table with a unique name, replaced atomically when the network opens and deleted at the end: other rules are never
touched. `nft` is run at the start and for pods with host ports, not for every pod.

A pod cannot reach the loopback addresses of its host. If a Service's address has to lead there (the API server of a
single machine), packets are redirected, which requires route_localnet on the pods' links; packets from those links with
a loopback destination of their own are dropped, so that nothing else on the host's loopback is exposed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from ipaddress import IPv4Network
from pathlib import Path

from podfit.podnet.failures import RulesRefused
from podfit.podnet.ports import PortMapping

BRIDGE_PREFIX = "podfit-"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TABLE = """
table ip {table}
delete table ip {table}
table ip {table} {{
  set links {{ type ifname; }}
  set localnet {{ type ifname; }}
  set ranges {{ type ipv4_addr; flags interval; }}
  map host_ports {{ type inet_proto . inet_service : ipv4_addr . inet_service; }}
  map address_ports {{ type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service; }}
  map services {{ type ipv4_addr . inet_service : ipv4_addr . inet_service; }}
  chain guard {{
    type filter hook prerouting priority raw; policy accept;
    iifname @links ip daddr 127.0.0.0/8 drop
  }}
  chain prerouting {{
    type nat hook prerouting priority dstnat; policy accept;
    iifname @links meta l4proto tcp dnat ip to ip daddr . tcp dport map @services
    fib daddr type local jump ports
  }}
  chain output {{
    type nat hook output priority -100; policy accept;
    fib daddr type local jump ports
  }}
  chain ports {{
    meta l4proto {{ tcp, udp, sctp }} dnat ip to ip daddr . meta l4proto . th dport map @address_ports
    meta l4proto {{ tcp, udp, sctp }} dnat ip to meta l4proto . th dport map @host_ports
  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr 127.0.0.0/8 oifname @links masquerade
    ip saddr @ranges ip daddr @ranges ct status dnat masquerade
    ip saddr @ranges oifname != "{prefix}*" masquerade
  }}
}}
"""


def find_nft() -> str:
    """The path of nft, "" if it is not installed."""
    return shutil.which("nft", path=_PATH) or ""


class Firewall:
    def __init__(self, mark: str) -> None:
        """`mark`: the node's own short name, which distinguishes its table from others."""
        self.table = f"podfit_{mark}"
        self.services: dict[tuple[str, int], tuple[str, int]] = {}
        """(address, port) → (address, port) of the node."""
        self.is_open = False
        self._links: set[str] = set()

    # These methods block for some milliseconds: callers run them in a thread.

    def open(
        self,
        links: Iterable[str] = (),
        ranges: Iterable[IPv4Network] = (),
        published: Iterable[tuple[Iterable[PortMapping], str]] = (),
    ) -> None:
        """Replaces the table atomically. `links` are those on which packets from pods arrive; packets from `ranges` are
        masqueraded to the node's address. Conntrack keeps existing connections."""
        changed = self._changed_links()
        commands = _TABLE.format(table=self.table, prefix=BRIDGE_PREFIX)
        commands += "".join(f'add element ip {self.table} localnet {{ "{name}" }}\n' for name in changed)
        commands += "".join(f"add element ip {self.table} ranges {{ {network} }}\n" for network in ranges)
        commands += "".join(self._service(*key, *target) for key, target in self.services.items())
        commands += "".join(self._published(ports, address) for ports, address in published)
        _nft(commands)
        self.is_open = True
        self._links.clear()
        for name in links:
            self.add_link(name)

    def close(self) -> None:
        for name in self._changed_links():
            if _localnet(name).exists():  # a link of a CNI plugin, which remains
                _localnet(name).write_text("0")
        # Declared first, so that deleting a missing table is not an error.
        _nft(f"table ip {self.table}\ndelete table ip {self.table}\n")
        self.is_open = False

    def add_link(self, name: str) -> None:
        if name in self._links:
            return
        added = f'add element ip {self.table} links {{ "{name}" }}\n'
        if _localnet(name).read_text().strip() == "0":
            _localnet(name).write_text("1")
            added += f'add element ip {self.table} localnet {{ "{name}" }}\n'
        _nft(added)
        self._links.add(name)

    def _changed_links(self) -> list[str]:
        """Links for which this network has set route_localnet, according to the table."""
        try:
            listed = _nft("", "-j", "list", "set", "ip", self.table, "localnet")
        except RulesRefused:
            return []  # there is no table
        sets = [item["set"] for item in json.loads(listed)["nftables"] if "set" in item]
        return [name for found in sets for name in found.get("elem") or ()]

    def redirect(self, address: str, port: int, target: str, target_port: int) -> None:
        """TCP connections from pods to `address`:`port` reach `target`:`target_port` of the node."""
        key = (address, port)
        old = f"delete element ip {self.table} services {{ {address} . {port} }}\n" if key in self.services else ""
        self.services[key] = (target, target_port)
        if self.is_open:
            _nft(old + self._service(address, port, target, target_port))

    def _service(self, address: str, port: int, target: str, target_port: int) -> str:
        return f"add element ip {self.table} services {{ {address} . {port} : {target} . {target_port} }}\n"

    def publish(self, ports: Iterable[PortMapping], address: str) -> None:
        """Forwards host ports of a pod to its address."""
        _nft(self._published(ports, address))

    def _published(self, ports: Iterable[PortMapping], address: str) -> str:
        add = f"add element ip {self.table}"
        return "".join(f"{add} {_element(port)} : {address} . {port.container_port} }}\n" for port in ports)

    def unpublish(self, ports: Iterable[PortMapping]) -> None:
        for port in ports:
            try:
                _nft(f"delete element ip {self.table} {_element(port)} }}\n")
            except RulesRefused:
                continue  # it does not exist: the pod's network was never completed


def _element(port: PortMapping) -> str:
    key = f"{port.protocol.lower()} . {port.host_port}"
    return f"address_ports {{ {port.host_ip} . {key}" if port.host_ip else f"host_ports {{ {key}"


def _localnet(link: str) -> Path:
    return Path(f"/proc/sys/net/ipv4/conf/{link}/route_localnet")


def _nft(commands: str, *words: str) -> str:
    """Runs nft with commands on its standard input, or with arguments. Returns its output."""
    program = find_nft()
    if not program:
        raise RulesRefused("nft is not installed: install nftables, or use --pod-network host")
    arguments = [program, *(words or ("-f", "-"))]
    done = subprocess.run(arguments, input=commands, capture_output=True, text=True, check=False)
    if done.returncode:
        first = next(iter(done.stderr.strip().splitlines()), f"exit code {done.returncode}")
        raise RulesRefused(f"nft: {first.removeprefix('/dev/stdin:')}")
    return done.stdout
