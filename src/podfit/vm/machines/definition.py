"""Converts a VM to and from libvirt's domain XML. Pure: text from values, and values from text."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from podfit.vm.decide.conversions import NAMESPACE
from podfit.vm.decide.devices import Device, Memory
from podfit.vm.decide.layout import UEFI, VIRTIO_MEM, Layout
from podfit.vm.decide.translation import cache_mib
from podfit.vm.machines.memoryxml import mib_of, virtio_xml

AGENT_CHANNEL = "org.qemu.guest_agent.0"
NO_NETWORK, USER_NETWORK, TAP = "none", "user", "tap"


@dataclass(frozen=True)
class Disk:
    path: str
    format: str = "qcow2"
    readonly: bool = False
    serial: str = ""
    """The serial number by which the guest identifies the disk."""
    boot: bool = False
    """Whether the VM boots from this disk, whatever other disks it has."""


@dataclass(frozen=True)
class Filesystem:
    """A folder of the host that the guest mounts by its tag."""

    source: str
    tag: str
    daemon: str


@dataclass(frozen=True)
class Network:
    kind: str = NO_NETWORK
    mac: str = ""
    tap: str = ""


@dataclass(frozen=True)
class Definition:
    name: str
    uuid: str
    layout: Layout
    console_log: str
    agent_socket: str
    size_xml: str
    accelerated: bool = False
    emulator: str = "/usr/bin/qemu-system-x86_64"
    kernel: str = ""
    initrd: str = ""
    cmdline: str = ""
    disks: tuple[Disk, ...] = ()
    network: Network = field(default_factory=Network)
    cpuset: str = ""
    filesystems: tuple[Filesystem, ...] = ()


def domain_xml(vm: Definition) -> str:
    layout = vm.layout
    cpuset = f" cpuset={quoteattr(vm.cpuset)}" if vm.cpuset else ""
    return f"""<domain type='{"kvm" if vm.accelerated else "qemu"}'>
<name>{escape(vm.name)}</name><uuid>{vm.uuid}</uuid>
<metadata>{vm.size_xml.replace("<size", f"<podfit:size xmlns:podfit='{NAMESPACE}'", 1)}</metadata>
<maxMemory slots='{layout.slots}' unit='MiB'>{layout.domain_max_mib}</maxMemory>
<memory unit='MiB'>{layout.boot.memory_mib}</memory>
<currentMemory unit='MiB'>{layout.boot.memory_mib}</currentMemory>
<vcpu placement='static'{cpuset} current='{layout.boot.vcpus}'>{layout.max_vcpus}</vcpu>{_vcpus(vm)}
{_memory_backing(vm)}
{_os(vm)}
<features><acpi/><apic/>{_emulation(vm)}</features>
{_cpu(vm)}
<on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>destroy</on_crash>
<devices><emulator>{escape(vm.emulator)}</emulator>
<controller type='usb' model='none'/>
{"".join(_disk(disk, number) for number, disk in enumerate(vm.disks))}{_interface(vm.network)}
{"".join(_filesystem(filesystem) for filesystem in vm.filesystems)}
<serial type='pty'><log file={quoteattr(vm.console_log)} append='on'/><target port='0'/></serial>
<console type='pty'><target type='serial' port='0'/></console>
<channel type='unix'><source mode='bind' path={quoteattr(vm.agent_socket)}/>
<target type='virtio' name='{AGENT_CHANNEL}'/></channel>
<memballoon model='virtio' freePageReporting='on'><stats period='1'/></memballoon>
<panic model='isa'/>{_virtio_memory(layout)}
</devices></domain>"""


def _vcpus(vm: Definition) -> str:
    """The vCPUs. Under KVM all but the first can be unplugged again; an emulated machine does not survive that."""
    if not vm.accelerated:
        return ""
    boot = vm.layout.boot.vcpus
    rows = (
        f"<vcpu id='{number}' enabled='{'yes' if number < boot else 'no'}' hotpluggable='{'yes' if number else 'no'}'/>"
        for number in range(vm.layout.max_vcpus)
    )
    return f"<vcpus>{''.join(rows)}</vcpus>"


def _os(vm: Definition) -> str:
    """UEFI without Secure Boot: firmware with Secure Boot runs partly in System Management Mode and enters it on every
    vCPU that is plugged, and an emulated guest of QEMU 7.2 never leaves it."""
    kind = "<type arch='x86_64' machine='q35'>hvm</type>"
    if vm.layout.firmware != UEFI:
        return f"<os>{kind}{_boot(vm)}</os>"
    plain = "<firmware><feature enabled='no' name='secure-boot'/></firmware>"
    return f"<os firmware='efi'>{kind}{plain}{_boot(vm)}</os>"


def _boot(vm: Definition) -> str:
    if any(disk.boot for disk in vm.disks):
        return ""
    if not vm.kernel:
        return "<boot dev='hd'/>"
    initrd = f"<initrd>{escape(vm.initrd)}</initrd>" if vm.initrd else ""
    return f"<kernel>{escape(vm.kernel)}</kernel>{initrd}<cmdline>{escape(vm.cmdline)}</cmdline>"


def _emulation(vm: Definition) -> str:
    if vm.accelerated:
        return ""
    return f"<tcg><tb-cache unit='MiB'>{cache_mib(vm.layout.max_vcpus)}</tb-cache></tcg>"


def _cpu(vm: Definition) -> str:
    layout, cells = vm.layout, ""
    for cell in range(layout.cells):
        first, last = layout.cell_vcpus(cell)
        cells += f"<cell id='{cell}' cpus='{first}-{last}' memory='{layout.cell_memory(cell)}' unit='MiB'/>"
    model = "mode='host-passthrough'" if vm.accelerated else "mode='custom' match='exact'"
    name = "" if vm.accelerated else "<model>qemu64</model>"
    topology = f"<topology sockets='{layout.max_vcpus}' cores='1' threads='1'/>"
    return f"<cpu {model}>{name}{topology}<numa>{cells}</numa></cpu>"


def _disk(disk: Disk, number: int) -> str:
    name = "vd" + chr(ord("a") + number)
    more = "<readonly/>" if disk.readonly else ""
    more += f"<serial>{escape(disk.serial)}</serial>" if disk.serial else ""
    more += "<boot order='1'/>" if disk.boot else ""
    kind, source = ("block", "dev") if disk.path.startswith("/dev/") else ("file", "file")
    return (
        f"<disk type='{kind}' device='disk'><driver name='qemu' type='{disk.format}'/>"
        f"<source {source}={quoteattr(disk.path)}/><target dev='{name}' bus='virtio'/>{more}</disk>\n"
    )


def _memory_backing(vm: Definition) -> str:
    """Shared memory: virtiofsd reads and writes the guest's memory."""
    if not vm.filesystems:
        return ""
    return "<memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>"


def _filesystem(filesystem: Filesystem) -> str:
    return (
        f"<filesystem type='mount' accessmode='passthrough'><driver type='virtiofs'/>"
        f"<binary path={quoteattr(filesystem.daemon)}/><source dir={quoteattr(filesystem.source)}/>"
        f"<target dir={quoteattr(filesystem.tag)}/></filesystem>\n"
    )


def _interface(network: Network) -> str:
    if network.kind == NO_NETWORK:
        return ""
    mac = f"<mac address='{network.mac}'/>" if network.mac else ""
    if network.kind == USER_NETWORK:
        return f"<interface type='user'>{mac}<model type='virtio'/></interface>"
    target = f"<target dev={quoteattr(network.tap)} managed='no'/>"
    return f"<interface type='ethernet'>{mac}{target}<model type='virtio'/></interface>"


def _virtio_memory(layout: Layout) -> str:
    if layout.device != VIRTIO_MEM:
        return ""
    return virtio_xml(layout.max_memory_mib - layout.boot.memory_mib, 0, layout.node or 0)


@dataclass(frozen=True)
class Live:
    """The parsed XML of a running domain."""

    memory: Memory
    vcpus: int
    console: str
    """The path of the serial console's pty; "" while the VM is off."""
    dimms: dict[int, tuple[str, int | None]]
    """The device's XML and its address in the guest's memory, by slot. None: libvirt has not queried QEMU yet."""
    agent: bool = False
    """The guest's agent has opened its channel."""

    def placed(self) -> list[tuple[Device, int | None]]:
        """The devices, each with its address in the guest's memory."""
        return [(device, self.dimms[device.slot][1]) for device in self.memory.devices]


def read_live(text: str) -> Live:
    root = ElementTree.fromstring(text)
    devices, dimms, virtio = [], {}, 0
    for number, element in enumerate(root.iterfind("devices/memory")):
        target = element.find("target")
        assert target is not None
        if element.get("model") == VIRTIO_MEM:
            virtio += mib_of(target.find("current"))
            continue
        address = element.find("address")
        slot = int(address.get("slot", str(number)), 0) if address is not None else number
        # No device begins at 0, where boot memory is: 0 stands for an address that is not known yet.
        base = (int(address.get("base", "0"), 0) or None) if address is not None else None
        devices.append(Device(slot, mib_of(target.find("size")), int(target.findtext("node", "0"))))
        dimms[slot] = (ElementTree.tostring(element, encoding="unicode"), base)
    # libvirt counts DIMMs into <memory>, and a virtio-mem device with the most memory it may ever have.
    whole = sum(mib_of(target) for target in root.iterfind("devices/memory/target/size"))
    boot = mib_of(root.find("memory")) - whole
    plugged = boot + sum(device.size for device in devices) + virtio
    vcpu = root.find("vcpu")
    vcpus = int(vcpu.get("current") or vcpu.text or 0) if vcpu is not None else 0
    console = root.find("devices/serial/source")
    balloon = max(0, plugged - mib_of(root.find("currentMemory")))
    memory = Memory(boot, tuple(devices), balloon, virtio)
    channel = root.find(f"devices/channel/target[@name='{AGENT_CHANNEL}']")
    agent = channel is not None and channel.get("state") == "connected"
    return Live(memory, vcpus, console.get("path", "") if console is not None else "", dimms, agent)
