"""The network of a node's pods: connects each one by CNI or by the node's own bridge, and cleans up.

A pod is connected and disconnected by its UID, both idempotently. Resources are recorded before they are created: after
a crash, the next process that opens the folder disconnects the pod like any other.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import Path

import msgspec
from msgspec import Struct

from podfit.kit.files.atomicfile import write_atomic
from podfit.podnet.attachment import BRIDGE, CNI, Attachment, Attachments, PodRequest
from podfit.podnet.cni import chain, config
from podfit.podnet.failures import NetworkFailure, RulesRefused
from podfit.podnet.kernel import namespaces
from podfit.podnet.kernel.bridge import Bridge
from podfit.podnet.kernel.firewall import Firewall, find_nft
from podfit.podnet.kernel.netlink import LOOPBACK, Netlink
from podfit.podnet.ports import PortMapping, Reservations
from podfit.podnet.support import missing_for_bridge, missing_for_namespaces

log = logging.getLogger(__name__)

AUTO, HOST = "auto", "host"
MODES = (AUTO, BRIDGE, CNI, HOST)
CNI_CONFIGURATIONS = Path("/etc/cni/net.d")
CNI_PLUGINS = (Path("/opt/cni/bin"), Path("/usr/lib/cni"))
_TABLE = "table"
_CONF = "/proc/sys/net/ipv4/conf"
_Services = list[tuple[str, int, str, int]]


class NetworkSettings(Struct, frozen=True):
    mode: str = AUTO
    """`auto`: CNI if there is a configuration, otherwise the bridge, otherwise (without the privileges) the host's
    network.
    """
    cni_conf_dir: Path = CNI_CONFIGURATIONS
    cni_bin_dirs: tuple[Path, ...] = CNI_PLUGINS


class PodNetwork:
    def __init__(self, folder: Path, mark: str, settings: NetworkSettings) -> None:
        """`mark`: eight hexadecimal digits unique to the node, part of every name it uses in the kernel."""
        self._folder, self._mark, self._settings = folder, mark, settings
        self._bridge = Bridge(mark, folder)
        self._firewall = Firewall(mark)
        self._attachments = Attachments(folder / "pods")
        self._ports = Reservations()
        self._turn = asyncio.Lock()
        self._ready: set[str] = set()
        """The open parts: the table, and the bridge."""
        self._host = settings.mode == HOST

    # --- life
    async def open(self) -> None:
        self._attachments.open()
        if self._settings.mode == AUTO and (missing := missing_for_namespaces()):
            log.warning("pods share the host's network: %s", "; ".join(missing))
            self._host = True
        self._firewall.services = self._read_services()
        known = self._attachments.all()
        try:
            if any(attachment.kind == BRIDGE for attachment in known):
                await self._prepare(BRIDGE)
            elif any(attachment.published or attachment.link for attachment in known):
                await self._prepare(_TABLE)
        except (NetworkFailure, OSError) as error:
            # Running pods keep what they have; the next one that starts reports why it cannot.
            log.warning("the network of this node's pods: %s", error)
        for attachment in known:
            self._hold_again(attachment)
        for attachment in self._attachments.all():
            if attachment.kind == CNI and attachment.ips and self.is_connected(attachment.request.uid):
                await self._check(attachment)

    async def close(self) -> None:
        """Closes the network; pods stay connected. If there are none, removes the node's resources from the kernel."""
        self._ports.close()
        if not self._attachments.all() and (self._folder / "opened").exists():
            await namespaces.in_thread(self._remove_all)

    async def purge(self) -> None:
        """Disconnects every pod and removes everything that this node created in the kernel."""
        for attachment in self._attachments.all():
            try:
                await self.disconnect(attachment.request.uid)
            except (NetworkFailure, OSError) as error:
                log.warning("pod %s: %s", attachment.request.uid, error)
        if self._folder.exists():
            await namespaces.in_thread(self._remove_all)
        self._ready.clear()

    def _remove_all(self) -> None:
        for path in namespaces.FOLDER.glob(f"{self._namespace('*').name}"):
            namespaces.remove(path)
        if (self._folder / "opened").exists():
            self._bridge.close()
            self._firewall.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    # --- pods
    def of(self, uid: str) -> Attachment | None:
        return self._attachments.get(uid)

    def all(self) -> list[Attachment]:
        return self._attachments.all()

    def is_connected(self, uid: str) -> bool:
        """Whether the pod's namespace still exists: not after a reboot, nor if another program removed it."""
        attachment = self._attachments.get(uid)
        return attachment is not None and bool(attachment.ips) and namespaces.exists(Path(attachment.namespace))

    def set_range(self, text: str) -> None:
        """Sets the range to the Node's spec.podCIDR. It takes effect when no pod has an address of another range."""
        if text != self._bridge.wanted:
            self._bridge.wanted = text
            self._ready.discard(BRIDGE)

    async def connect(self, request: PodRequest) -> Attachment | None:
        """Connects a pod. None: the pod uses the host's network. Raises NetworkFailure after cleaning up the
        attempt."""
        chosen = self._choose()
        if chosen is None:
            return None
        await self.disconnect(request.uid)
        kind = CNI if isinstance(chosen, config.NetworkConfig) else BRIDGE
        attachment = Attachment(request, kind, str(self._namespace(request.uid)))
        try:
            own = self._own_ports(request, chosen)
            self._ports.hold(request.uid, own)
            self._attachments.save(attachment)
            if kind == BRIDGE:
                await self._prepare(BRIDGE)
            elif own or (self._firewall.services and find_nft()):
                await self._prepare(_TABLE)
            if isinstance(chosen, config.NetworkConfig):
                await self._connect_by_cni(attachment, chosen)
            else:
                await self._connect_to_bridge(attachment)
            if request.sysctls:
                await namespaces.in_thread(lambda: _set_parameters(Path(attachment.namespace), request.sysctls))
            if own:
                attachment.published = own
                await namespaces.in_thread(lambda: self._firewall.publish(own, _ipv4(attachment.ips)))
            self._attachments.save(attachment)
        except (NetworkFailure, OSError) as error:
            if isinstance(error, (RulesRefused, OSError)):
                self._ready.clear()
            await self._give_up(attachment)
            if isinstance(error, NetworkFailure):
                raise
            raise NetworkFailure(f"cannot set up the pod's network: {error.strerror or error}") from error
        return attachment

    async def disconnect(self, uid: str) -> None:
        """Disconnects a pod. Raises NetworkFailure if a CNI plugin cannot release its resources; the caller retries."""
        self._ports.drop(uid)
        attachment = self._attachments.get(uid)
        if attachment is None:
            return
        if attachment.published:
            await namespaces.in_thread(lambda: self._firewall.unpublish(attachment.published))
        if attachment.kind == CNI:
            # Without its namespace a plugin still releases its addresses.
            there = attachment.namespace if namespaces.exists(Path(attachment.namespace)) else ""
            try:
                await chain.delete(attachment.request, there, attachment.cni)
            except NetworkFailure as error:
                if attachment.ips:
                    raise
                # The pod was never connected, so a failed DEL must not block it once the configuration has been
                # corrected.
                log.info("pod %s: %s", uid, error)
        await namespaces.in_thread(lambda: self._remove(attachment))
        self._attachments.drop(uid)

    async def redirect(self, address: str, port: int, target: str, target_port: int) -> None:
        """TCP connections from pods to `address`:`port` reach `target`:`target_port` of the node."""
        if self._firewall.services.get((address, port)) != (target, target_port):
            await namespaces.in_thread(lambda: self._firewall.redirect(address, port, target, target_port))
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            listed = [[*key, *to] for key, to in self._firewall.services.items()]
            write_atomic(self._folder / "services.json", msgspec.json.encode(listed), durable=False)

    # --- steps
    def _choose(self) -> config.NetworkConfig | str | None:
        """A CNI configuration, BRIDGE, or None for the host's network."""
        if self._host:
            return None
        mode = self._settings.mode
        if mode != BRIDGE:
            found = config.load(self._settings.cni_conf_dir)
            if found is not None:
                return found
            if mode == CNI:
                raise NetworkFailure(f"no CNI configuration in {self._settings.cni_conf_dir}")
        if missing := missing_for_bridge():
            if mode == BRIDGE:
                raise NetworkFailure(f"the node's own bridge cannot be made: {'; '.join(missing)}")
            return None
        return BRIDGE

    @staticmethod
    def _own_ports(request: PodRequest, chosen: config.NetworkConfig | str) -> tuple[PortMapping, ...]:
        """Host ports that no plugin of the chain forwards."""
        if isinstance(chosen, config.NetworkConfig) and chain.PORT_MAPPINGS in chosen.capabilities:
            return ()
        return request.ports

    async def _prepare(self, what: str) -> None:
        """Creates the table, and the bridge if it is used, once, and again after a failure, because another program may
        have removed them."""
        async with self._turn:
            if what not in self._ready:
                await namespaces.in_thread(lambda: self._open_kernel(what))
                self._ready |= {what, _TABLE}

    def _open_kernel(self, what: str) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._folder / "opened").touch()
        known = self._attachments.all()
        links = [
            attachment.link
            for attachment in known
            if attachment.kind == CNI and attachment.link and os.path.exists(f"{_CONF}/{attachment.link}")
        ]
        published = [(attachment.published, _ipv4(attachment.ips)) for attachment in known if attachment.published]
        if what == BRIDGE:
            network = self._bridge.open()
            self._firewall.open([self._bridge.name, *links], [network], published)
        else:
            self._firewall.open(links, (), published)

    def _hold_again(self, attachment: Attachment) -> None:
        try:
            self._ports.hold(attachment.request.uid, attachment.published)
        except NetworkFailure as error:
            log.warning("pod %s/%s: %s", attachment.request.namespace, attachment.request.name, error)

    def _read_services(self) -> dict[tuple[str, int], tuple[str, int]]:
        try:
            listed = msgspec.json.decode((self._folder / "services.json").read_bytes(), type=_Services)
        except (OSError, msgspec.DecodeError):
            return {}
        return {(address, port): (target, to) for address, port, target, to in listed}

    async def _connect_to_bridge(self, attachment: Attachment) -> None:
        """The address is leased in this thread: its files are small, and in another thread each would wait for the
        interpreter lock."""
        assert self._bridge.leases is not None
        address = self._bridge.leases.take(attachment.request.uid)
        path, hairpin = Path(attachment.namespace), bool(attachment.request.ports)
        attachment.link = await namespaces.in_thread(lambda: self._bridge.connect(address, path, hairpin))
        attachment.ips = (str(address),)

    async def _connect_by_cni(self, attachment: Attachment, chosen: config.NetworkConfig) -> None:
        await namespaces.in_thread(lambda: _empty_namespace(Path(attachment.namespace)))
        try:
            attachment.ips = await chain.add(
                chosen, attachment.request, attachment.namespace, self._settings.cni_bin_dirs, attachment.cni
            )
        finally:
            self._attachments.save(attachment)
        if self._firewall.is_open and _ipv4(attachment.ips):
            await namespaces.in_thread(lambda: self._follow_link(attachment))

    def _follow_link(self, attachment: Attachment) -> None:
        """Redirects Service addresses to the host for CNI's pods as well, for any link on which their packets
        arrive.
        """
        with Netlink() as net:
            index = net.link_towards(IPv4Address(_ipv4(attachment.ips)))
            attachment.link = next((link.name for link in net.links() if link.index == index), "")
        if attachment.link:
            self._firewall.add_link(attachment.link)

    def _remove(self, attachment: Attachment) -> None:
        if attachment.kind == BRIDGE:
            self._bridge.disconnect(attachment.request.uid)
        namespaces.remove(Path(attachment.namespace))

    async def _give_up(self, attachment: Attachment) -> None:
        try:
            await self.disconnect(attachment.request.uid)
        except (NetworkFailure, OSError) as error:
            # Kept: the next attempt starts by disconnecting.
            log.info("pod %s: %s", attachment.request.uid, error)

    async def _check(self, attachment: Attachment) -> None:
        try:
            await chain.check(attachment.request, attachment.namespace, attachment.cni)
        except NetworkFailure as error:
            log.warning("pod %s/%s: %s", attachment.request.namespace, attachment.request.name, error)

    def _namespace(self, uid: str) -> Path:
        return namespaces.FOLDER / f"podfit-{self._mark}-{uid}"


def _empty_namespace(path: Path) -> None:
    os.close(namespaces.create(path))
    with Netlink() as inside:
        inside.set_up(LOOPBACK)


def _set_parameters(namespace: Path, parameters: Mapping[str, str]) -> None:
    """Moves the calling thread into the namespace, whose parameters are then below /proc/sys/net."""
    namespaces.enter(namespace)
    for name, value in parameters.items():
        try:
            Path("/proc/sys", *name.split(".")).write_text(value)
        except OSError as error:
            raise NetworkFailure(f'cannot set sysctl "{name}" to "{value}": {error.strerror}') from error


def _ipv4(ips: tuple[str, ...]) -> str:
    return next((ip for ip in ips if ":" not in ip), "")
