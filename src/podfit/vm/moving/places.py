"""The data that two runtimes exchange about a migrating VM, and the rewriting of its XML for the new host. Pure.

The guest must not notice anything: its devices, addresses and sizes stay. Files, sockets and CPUs are the new host's.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from podfit.vm.decide.layout import Layout
from podfit.vm.decide.refusals import Refused
from podfit.vm.decide.sizes import Limits
from podfit.vm.machines.definition import Definition
from podfit.vm.reach.dhcp import Lease

ElementTree.register_namespace("podfit", "https://podfit.dev/vm/1")
ElementTree.register_namespace("qemu", "http://libvirt.org/schemas/domain/qemu/1.0")


class CannotMove(Refused):
    """The VM stays where it is; the message gives the reason."""


@dataclass(frozen=True)
class Offer:
    """A VM that may be migrated, as described by the source runtime."""

    id: str
    uuid: str
    layout: Layout
    limits: Limits
    offline_vcpus: int
    overhead_mib: int
    created_ns: int
    started_ns: int
    mac: str = ""
    lease: Lease | None = None
    """The guest's address, which it keeps; None if it has none in the pod network."""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "layout": self.layout.to_json()}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Offer:
        layout, limits = Layout.from_json(data["layout"]), Limits(**data["limits"])
        lease = Lease(**data["lease"]) if data.get("lease") else None
        return Offer(**{**data, "layout": layout, "limits": limits, "lease": lease})


@dataclass(frozen=True)
class PreparedTarget:
    """The target's preparation: how libvirt connects to it, and the VM's files and sockets there."""

    uri: str
    """The URI at which the source's daemon reaches this host's libvirt daemon."""
    transport: str = ""
    """The URI by which QEMU connects to QEMU; "" if libvirt chooses."""
    disk_transport: str = ""
    emulator: str = ""
    kernel: str = ""
    initrd: str = ""
    cmdline: str = ""
    console_log: str = ""
    agent_socket: str = ""
    disks: list[str] = field(default_factory=list)
    tap: str = ""
    cpuset: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> PreparedTarget:
        return PreparedTarget(**data)


def place_of(vm: Definition, uri: str, transport: str, disk_transport: str) -> PreparedTarget:
    return PreparedTarget(
        uri,
        transport,
        disk_transport if vm.disks else "",
        vm.emulator,
        vm.kernel,
        vm.initrd,
        vm.cmdline,
        vm.console_log,
        vm.agent_socket,
        [disk.path for disk in vm.disks],
        vm.network.tap,
        vm.cpuset,
    )


def rewritten(text: str, place: PreparedTarget) -> str:
    """The VM's XML for the new host. Raises CannotMove."""
    root = ElementTree.fromstring(text)
    for name in ("kernel", "initrd", "cmdline"):
        _set_text(root.find(f"os/{name}"), getattr(place, name))
    _set_text(root.find("devices/emulator"), place.emulator)
    for log in (*root.iterfind("devices/serial/log"), *root.iterfind("devices/console/log")):
        log.set("file", place.console_log)
    for source in root.iterfind("devices/channel/source"):
        source.set("path", place.agent_socket)
    for target in root.iterfind("devices/interface[@type='ethernet']/target"):
        target.set("dev", place.tap)
    _move_disks(root, place)
    _unpin(root, place.cpuset)
    return ElementTree.tostring(root, encoding="unicode")


def _set_text(element: ElementTree.Element | None, text: str) -> None:
    if element is not None:
        element.text = text


def _move_disks(root: ElementTree.Element, place: PreparedTarget) -> None:
    disks = root.findall("devices/disk")
    if len(disks) != len(place.disks):
        raise CannotMove(f"the VM has {len(disks)} disks, but the other node has prepared {len(place.disks)}")
    for disk, path in zip(disks, place.disks, strict=True):
        source, backing = disk.find("source"), disk.find("backingStore")
        if source is not None:
            source.set("file", path)
        if backing is not None:
            disk.remove(backing)


def _unpin(root: ElementTree.Element, cpuset: str) -> None:
    """Removes CPU pins, which refer to CPUs of the source host."""
    vcpu, tuning = root.find("vcpu"), root.find("cputune")
    if vcpu is not None:
        vcpu.attrib.pop("cpuset", None)
        if cpuset:
            vcpu.set("cpuset", cpuset)
    if tuning is not None:
        for pin in (*tuning.findall("vcpupin"), *tuning.findall("emulatorpin")):
            tuning.remove(pin)
