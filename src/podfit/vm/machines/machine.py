"""Operates one VM: its lifecycle, memory devices, vCPUs and balloon, as single steps on the libvirt domain.

Each step is one call that either succeeds or raises LibvirtFailed; the order of steps is decided elsewhere.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import libvirt
import libvirt_qemu

from podfit.vm.decide.blocks import Region
from podfit.vm.decide.conversions import NAMESPACE, cpus_of
from podfit.vm.decide.layout import VIRTIO_MEM
from podfit.vm.machines.definition import Live, read_live
from podfit.vm.machines.hypervisor import Hypervisor, LibvirtFailed
from podfit.vm.machines.memoryxml import counted, dimm_xml, requested_mib, requesting

LIVE, CONFIG = libvirt.VIR_DOMAIN_AFFECT_LIVE, libvirt.VIR_DOMAIN_AFFECT_CONFIG
_WITH_EVERYTHING = libvirt.VIR_DOMAIN_UNDEFINE_NVRAM | libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
MIGRATED = "migrated"
_OFF = {
    libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN: "shutdown",
    libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED: "destroyed",
    libvirt.VIR_DOMAIN_SHUTOFF_CRASHED: "crashed",
    libvirt.VIR_DOMAIN_SHUTOFF_FAILED: "failed",
    libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED: MIGRATED,
}


@dataclass(frozen=True)
class State:
    running: bool
    paused: bool = False
    disk_failed: bool = False
    """QEMU paused the VM, because it could not read or write a disk."""
    why_off: str = ""
    """shutdown, destroyed, crashed, failed or migrated; "" if libvirt does not know."""


class Machine:
    def __init__(self, hypervisor: Hypervisor, name: str, uuid: str) -> None:
        self._hypervisor, self.name, self.uuid = hypervisor, name, uuid

    async def _do(self, work: Callable[[Any], Any]) -> Any:
        return await self._hypervisor.on(self.uuid, work)

    async def _ask(self, work: Callable[[Any], Any]) -> Any:
        return await self._hypervisor.query(self.uuid, work)

    # --- lifecycle
    async def start(self, enter: Callable[[], None], leave: Callable[[], None], paused: bool = False) -> int:
        """Starts the VM from a thread that has entered the pod's cgroup and network; returns QEMU's pid. A VM whose
        memory was saved resumes."""

        def work(domain: Any) -> None:
            enter()
            try:
                domain.createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED if paused else 0)
            finally:
                leave()

        await self._do(work)
        return self.pid() or 0

    def pid(self) -> int | None:
        with suppress(OSError, ValueError):
            return int(self._hypervisor.pid_file(self.name).read_text())
        return None

    async def state(self) -> State | None:
        """The state of the domain; None if it does not exist."""
        try:
            state, reason = await self._do(lambda domain: domain.state())
        except LibvirtFailed as error:
            if error.no_domain:
                return None
            raise
        if state in (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_CRASHED):
            return State(False, why_off=_OFF.get(reason, "crashed" if state == libvirt.VIR_DOMAIN_CRASHED else ""))
        paused = state == libvirt.VIR_DOMAIN_PAUSED
        return State(True, paused=paused, disk_failed=paused and reason == libvirt.VIR_DOMAIN_PAUSED_IOERROR)

    async def press_power_button(self) -> None:
        await self._do(lambda domain: domain.shutdownFlags(libvirt.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN))

    async def pause(self) -> None:
        await self._do(lambda domain: domain.suspend())

    async def resume(self) -> None:
        await self._do(lambda domain: domain.resume())

    async def save(self) -> None:
        """Saves the VM's memory to disk and ends QEMU."""
        await self._do(lambda domain: domain.managedSave(libvirt.VIR_DOMAIN_SAVE_RUNNING))

    async def is_saved(self) -> bool:
        return bool(await self._do(lambda domain: domain.hasManagedSaveImage()))

    async def drop_saved(self) -> None:
        await self._do(lambda domain: domain.managedSaveRemove())

    async def reset(self) -> None:
        await self._do(lambda domain: domain.reset())

    async def destroy(self) -> None:
        try:
            await self._do(lambda domain: domain.destroy())
        except LibvirtFailed as error:
            if not error.not_running and not error.no_domain:
                raise

    async def undefine(self) -> None:
        try:
            await self._do(lambda domain: domain.undefineFlags(_WITH_EVERYTHING))
        except LibvirtFailed as error:
            if not error.no_domain:
                raise

    # --- state
    async def live(self) -> Live:
        """The domain as libvirt knows it, which does not ask QEMU."""
        return read_live(await self._do(lambda domain: domain.XMLDesc(0)))

    async def statistics(self) -> dict[str, int]:
        """The balloon statistics, in KiB; those of the guest are missing while it has no driver."""
        found: dict[str, int] = await self._ask(lambda domain: domain.memoryStats())
        return found

    async def measured(self) -> tuple[Live, dict[str, int]]:
        """The parsed domain and its statistics, measured together."""
        text, found = await self._ask(lambda domain: (domain.XMLDesc(0), domain.memoryStats()))
        return read_live(text), found

    async def size_xml(self) -> str:
        def work(domain: Any) -> str:
            try:
                return str(domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, NAMESPACE, CONFIG))
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN_METADATA:
                    return ""
                raise

        return str(await self._do(work))

    async def set_size_xml(self, text: str) -> None:
        def work(domain: Any) -> None:
            kind = libvirt.VIR_DOMAIN_METADATA_ELEMENT
            domain.setMetadata(kind, text, "podfit", NAMESPACE, CONFIG)
            if domain.isActive():
                domain.setMetadata(kind, text, "podfit", NAMESPACE, LIVE)

        await self._do(work)

    # --- memory
    async def attach(self, size: int, node: int) -> None:
        """Attaches a DIMM, first to the running VM, then to its definition: if the first fails, both stay unchanged."""
        xml = dimm_xml(size, node)

        def work(domain: Any) -> None:
            domain.attachDeviceFlags(xml, LIVE)
            domain.attachDeviceFlags(xml, CONFIG)

        await self._do(work)

    async def detach(self, slot: int) -> str:
        """Asks the guest to release a DIMM; an event with the returned alias reports the result."""
        xml = (await self.live()).dimms[slot][0]
        alias = ElementTree.fromstring(xml).find("alias")
        await self._do(lambda domain: domain.detachDeviceFlags(xml, LIVE))
        return alias.get("name", "") if alias is not None else ""

    async def settle_definition(self) -> None:
        """Updates the definition to the devices and vCPUs of the running VM, so that it starts with them again."""

        def work(domain: Any) -> None:
            running, stored = domain.XMLDesc(0), domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
            live, kept = read_live(running), read_live(stored)
            wanted, there = counted(live.memory.devices), counted(kept.memory.devices)
            for size, node in sorted(wanted.keys() | there.keys()):
                more = wanted.get((size, node), 0) - there.get((size, node), 0)
                change = domain.attachDeviceFlags if more > 0 else domain.detachDeviceFlags
                for _ in range(abs(more)):
                    change(dimm_xml(size, node), CONFIG)
            requested = requested_mib(running)
            if requested is not None and requested != requested_mib(stored):
                domain.updateDeviceFlags(requesting(stored, requested), CONFIG)
            if live.vcpus != kept.vcpus:
                domain.setVcpusFlags(live.vcpus, CONFIG)

        await self._do(work)

    async def request_virtio(self, mib: int) -> None:
        """Requests a size from the virtio-mem device; the guest follows as far as it can."""

        def work(domain: Any) -> None:
            domain.updateDeviceFlags(requesting(domain.XMLDesc(0), mib), LIVE)
            domain.updateDeviceFlags(requesting(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE), mib), CONFIG)

        await self._do(work)

    async def virtio_region(self) -> Region | None:
        """The address range of the virtio-mem device, which libvirt does not report; None if there is no such
        device."""
        answer = await self._ask(
            lambda domain: libvirt_qemu.qemuMonitorCommand(domain, '{"execute": "query-memory-devices"}', 0)
        )
        for device in json.loads(answer)["return"]:
            if device["type"] == VIRTIO_MEM:
                data = device["data"]
                return Region(data["memaddr"], data["max-size"] >> 20, data["size"] >> 20)
        return None

    async def set_balloon(self, guest_mib: int) -> None:
        """Sets the balloon so that the guest keeps this much of its boot memory and its DIMMs."""
        await self._do(lambda domain: domain.setMemoryFlags(guest_mib << 10, LIVE))

    # --- vCPUs
    async def translated(self) -> str:
        """QEMU's report on its translation cache; "" under KVM."""
        hmp = libvirt_qemu.VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP
        if self._hypervisor.accelerated:
            return ""
        return str(await self._ask(lambda domain: libvirt_qemu.qemuMonitorCommand(domain, "info jit", hmp)))

    async def add_vcpus(self, count: int) -> None:
        await self._do(lambda domain: (domain.setVcpusFlags(count, LIVE), domain.setVcpusFlags(count, CONFIG)))

    async def remove_vcpus(self, count: int) -> None:
        """Unplugs vCPUs; under KVM only."""
        await self._do(lambda domain: (domain.setVcpusFlags(count, LIVE), domain.setVcpusFlags(count, CONFIG)))

    async def pin(self, cpus: str, host_cpus: int) -> None:
        """Restricts every vCPU and QEMU's other threads to CPUs of the host."""
        allowed = cpus_of(cpus)
        mask = tuple(number in allowed for number in range(host_cpus))

        def work(domain: Any) -> None:
            for number in range(domain.vcpusFlags(LIVE)):
                domain.pinVcpuFlags(number, mask, LIVE | CONFIG)
            domain.pinEmulator(mask, LIVE | CONFIG)

        await self._do(work)
