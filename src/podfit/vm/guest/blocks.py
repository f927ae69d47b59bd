"""Attaches block volumes of a VM pod: devices or files of the node that become disks of the guest, raw and as a whole.

A file's format is never detected: otherwise an image header written by the guest could name any file of the node.
"""

from __future__ import annotations

import shlex
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from podfit.api.pods.machines import BOOT_DEVICE
from podfit.cri import api_pb2 as cri
from podfit.vm.decide.refusals import Invalid
from podfit.vm.machines.definition import Disk
from podfit.vm.machines.guest import AgentFailed, GuestAgent

_SERIAL = "podfit"


def disks_of(devices: Iterable[cri.Device], annotations: Mapping[str, str]) -> tuple[Disk, ...]:
    """Raises Invalid for a path that cannot be a disk."""
    boot, found = annotations.get(BOOT_DEVICE, ""), []
    for number, device in enumerate(devices):
        path = Path(device.host_path)
        try:
            mode = path.stat().st_mode
        except OSError as error:
            raise Invalid(f"{device.container_path}: {path}: {error.strerror}") from error
        if not stat.S_ISBLK(mode) and not stat.S_ISREG(mode):
            raise Invalid(f"{device.container_path}: {path} is neither a block device nor a file")
        found.append(Disk(str(path), "raw", serial=f"{_SERIAL}{number}", boot=device.container_path == boot))
    if boot and not any(disk.boot for disk in found):
        raise Invalid(f"annotation {BOOT_DEVICE}: the pod has no block volume at {boot}")
    return tuple(found)


async def link_in_guest(agent: GuestAgent, devices: Iterable[cri.Device]) -> list[str]:
    """Links each disk to the path in the pod, inside the guest; returns those that could not be linked."""
    problems = []
    for number, device in enumerate(devices):
        try:
            ran = await agent.run(["/bin/sh", "-c", _script(f"{_SERIAL}{number}", shlex.quote(device.container_path))])
        except AgentFailed as error:
            problems.append(f"{device.container_path}: {error}")
            continue
        if ran.code:
            problems.append(f"{device.container_path}: {ran.out.decode(errors='replace').strip()}")
    return problems


def _script(serial: str, target: str) -> str:
    return f"""for file in /sys/block/*/serial; do
  [ "$(cat $file)" = {serial} ] || continue
  disk=${{file%/serial}}; disk=/dev/${{disk##*/}}
  [ $disk = {target} ] && exit 0
  [ -e {target} ] && [ ! -L {target} ] && echo 'the guest has another file there' && exit 1
  mkdir -p "$(dirname {target})" && ln -sfn $disk {target}
  exit $?
done 2>&1
echo 'the guest does not show the disk'; exit 1
"""
