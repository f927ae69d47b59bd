"""The node's own nftables table: NAT for pods, their host ports, and addresses of Services that lead to the host.

One table with a name of its own, replaced whole when the network opens and deleted whole at the end: rules of others
are never touched. `nft` does it; it is asked at the start and for pods with host ports, not for every pod.

A pod cannot reach the loopback addresses of its host. Where a Service's address has to lead there (the API server of a
single machine), packets are redirected, which takes route_localnet on the pods' links; packets that come from there
with a loopback destination of their own are dropped, so that nothing else of the host's loopback is opened.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from ipaddress import IPv4Network
from pathlib import Path

from podfit.podnet.failures import NetworkFailure
from podfit.podnet.ports import PortMapping

BRIDGE_PREFIX = "podfit-"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TABLE = """
table ip {table}
delete table ip {table}
table ip {table} {{
  set links {{ type ifname; {links} }}
  set ranges {{ type ipv4_addr; flags interval; {ranges} }}
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
    """Where nft is, "" if it is not installed."""
    return shutil.which("nft", path=_PATH) or ""


class Firewall:
    def __init__(self, mark: str) -> None:
        """`mark`: the node's own short name, which keeps its table apart from those of others."""
        self.table = f"podfit_{mark}"
        self.services: dict[tuple[str, int], tuple[str, int]] = {}
        """(address, port) → (address, port) of the node."""
        self.is_open = False
        self._links: set[str] = set()

    # These block, for some milliseconds: callers run them in a thread.

    def open(self, links: Iterable[str] = (), ranges: Iterable[IPv4Network] = ()) -> None:
        """Replaces the table. Pods' packets come in by these links, and reach the world under the node's address where
        they are from these ranges. Connections that exist go on: the kernel knows where they lead."""
        self._links = set(links)
        for name in self._links:
            _route_localnet(name)
        shown = ", ".join(f'"{name}"' for name in sorted(self._links))
        networks = ", ".join(str(network) for network in ranges)
        commands = _TABLE.format(
            table=self.table,
            prefix=BRIDGE_PREFIX,
            links=f"elements = {{ {shown} }};" if shown else "",
            ranges=f"elements = {{ {networks} }};" if networks else "",
        )
        _nft(commands + "".join(self._service(*key, *target) for key, target in self.services.items()))
        self.is_open = True

    def close(self) -> None:
        # Declared first, so that deleting a table that is not there is no error.
        _nft(f"table ip {self.table}\ndelete table ip {self.table}\n")
        self.is_open = False

    def add_link(self, name: str) -> None:
        if name not in self._links:
            _route_localnet(name)
            _nft(f'add element ip {self.table} links {{ "{name}" }}\n')
            self._links.add(name)

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
        """Host ports of a pod lead to its address."""
        add = f"add element ip {self.table}"
        _nft("".join(f"{add} {_element(port)} : {address} . {port.container_port} }}\n" for port in ports))

    def unpublish(self, ports: Iterable[PortMapping]) -> None:
        for port in ports:
            try:
                _nft(f"delete element ip {self.table} {_element(port)} }}\n")
            except NetworkFailure:
                continue  # it is not there: the pod's network was never finished


def _element(port: PortMapping) -> str:
    key = f"{port.protocol.lower()} . {port.host_port}"
    return f"address_ports {{ {port.host_ip} . {key}" if port.host_ip else f"host_ports {{ {key}"


def _route_localnet(link: str) -> None:
    Path(f"/proc/sys/net/ipv4/conf/{link}/route_localnet").write_text("1")


def _nft(commands: str) -> None:
    if not commands:
        return
    program = find_nft()
    if not program:
        raise NetworkFailure("nft is not installed: install nftables, or use --pod-network host")
    done = subprocess.run([program, "-f", "-"], input=commands, capture_output=True, text=True, check=False)
    if done.returncode:
        first = next(iter(done.stderr.strip().splitlines()), f"exit code {done.returncode}")
        raise NetworkFailure(f"nft: {first.removeprefix('/dev/stdin:')}")
