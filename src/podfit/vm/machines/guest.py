"""Calls the guest agent (qemu-guest-agent): memory, vCPUs, and commands in the guest."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass
from typing import Any

import libvirt
import libvirt_qemu

from podfit.vm.decide.conversions import cpus_of
from podfit.vm.decide.shrinking import Guest
from podfit.vm.machines.hypervisor import Hypervisor, LibvirtFailed

ANSWER_S = 5
_BLOCKS, _VCPUS = "/sys/devices/system/memory", "/sys/devices/system/cpu"
_POLL_S = (0.005, 0.01, 0.02, 0.05, 0.1)


class AgentFailed(Exception):
    """The agent does not answer, or refused; the message says which."""


@dataclass(frozen=True)
class CommandResult:
    code: int
    out: bytes
    err: bytes


class GuestAgent:
    def __init__(self, hypervisor: Hypervisor, uuid: str) -> None:
        self._hypervisor, self._uuid = hypervisor, uuid

    async def command(self, name: str, **arguments: Any) -> Any:
        text = json.dumps({"execute": name, "arguments": arguments} if arguments else {"execute": name})
        try:
            answer = await self._hypervisor.on(
                self._uuid, lambda domain: libvirt_qemu.qemuAgentCommand(domain, text, ANSWER_S, 0)
            )
        except LibvirtFailed as error:
            silent = error.code == libvirt.VIR_ERR_AGENT_UNRESPONSIVE
            raise AgentFailed(
                f"the guest's agent (qemu-guest-agent) does not answer: {error}" if silent else str(error)
            ) from error
        return json.loads(answer)["return"]

    async def answers(self) -> bool:
        try:
            await self.command("guest-ping")
        except AgentFailed:
            return False
        return True

    # --- commands
    async def start(self, words: list[str], stdin: bytes = b"") -> int:
        """Starts a command and returns its pid in the guest."""
        arguments: dict[str, Any] = {"path": words[0], "arg": words[1:], "capture-output": True}
        if stdin:
            arguments["input-data"] = base64.b64encode(stdin).decode()
        return int((await self.command("guest-exec", **arguments))["pid"])

    async def result(self, pid: int) -> CommandResult:
        """Waits until the command has ended."""
        pause = iter(_POLL_S)
        while True:
            found = await self.command("guest-exec-status", pid=pid)
            if found["exited"]:
                code = found.get("exitcode")
                ended = int(code) if code is not None else 128 + int(found.get("signal", 0))
                return CommandResult(ended, _decoded(found, "out-data"), _decoded(found, "err-data"))
            await asyncio.sleep(next(pause, _POLL_S[-1]))

    async def run(self, words: list[str], stdin: bytes = b"") -> CommandResult:
        return await self.result(await self.start(words, stdin))

    # --- memory
    async def memory(self) -> Guest:
        """The guest's memory from /proc/meminfo, which is current; balloon statistics are up to a second old."""
        ran = await self.run(["/bin/cat", "/proc/meminfo"])
        rows = {name: int(rest.split()[0]) >> 10 for name, _, rest in map(_row, ran.out.decode().splitlines()) if rest}
        if ran.code or "MemAvailable" not in rows:
            raise AgentFailed("the guest does not show /proc/meminfo")
        return Guest(rows["MemTotal"], rows["MemAvailable"])

    async def block_size(self) -> int:
        return int((await self.command("guest-get-memory-block-info"))["size"])

    async def blocks(self) -> dict[int, bool]:
        """Whether each memory block of the guest is online.

        The agent reports a block as online, and fixed, while its folder in sysfs has no file `state`: that is an old
        kernel, or a block that the kernel is just adding. So such blocks are looked up, and left out if they are not
        online."""
        found = await self.command("guest-get-memory-blocks")
        blocks = {int(block["phys-index"]): bool(block["online"]) for block in found}
        fixed = {int(block["phys-index"]) for block in found if block["online"] and not block.get("can-offline")}
        return _without(blocks, fixed - await self._online_blocks() if fixed else fixed)

    async def _online_blocks(self) -> set[int]:
        ran = await self.run(["/bin/sh", "-c", f"cd {_BLOCKS} && grep -lsx online memory*/state; true"])
        return {int(name.partition("/")[0].removeprefix("memory")) for name in ran.out.decode().split()}

    async def fixed_blocks(self) -> frozenset[int]:
        """Memory blocks that are online outside the movable zone: the kernel may have put unmovable data there."""
        ran = await self.run(["/bin/sh", "-c", f"cd {_BLOCKS} && grep -vs Movable memory*/valid_zones; true"])
        rows = (line.partition("/valid_zones:") for line in ran.out.decode().splitlines())
        return frozenset(int(name.removeprefix("memory")) for name, _, zone in rows if zone and zone != "none")

    async def set_blocks(self, numbers: list[int], online: bool) -> list[int]:
        """Takes memory blocks offline or online; returns those that did not change.

        Blocks are brought online through sysfs as movable: the agent's own command would make them kernel memory, which
        can never be unplugged again.
        """
        failed = []
        for number in numbers:
            word = "online_movable" if online else "offline"
            script = f"echo {word} >{_BLOCKS}/memory{number}/state"
            if (await self.run(["/bin/sh", "-c", script])).code:
                failed.append(number)
        return failed

    # --- vCPUs
    async def vcpus(self) -> dict[int, bool]:
        """Whether each vCPU of the guest is online.

        As with memory blocks, the agent reports a vCPU that the kernel is just adding as online and fixed. The first
        vCPU is always both.
        """
        found = await self.command("guest-get-vcpus")
        vcpus = {int(vcpu["logical-id"]): bool(vcpu["online"]) for vcpu in found}
        fixed = {int(vcpu["logical-id"]) for vcpu in found if vcpu["online"] and not vcpu.get("can-offline")} - {0}
        return _without(vcpus, fixed - await self._online_vcpus() if fixed else fixed)

    async def _online_vcpus(self) -> set[int]:
        ran = await self.run(["/bin/cat", f"{_VCPUS}/online"])
        return cpus_of(ran.out.decode())

    async def set_vcpus(self, online: dict[int, bool]) -> None:
        wanted = [{"logical-id": number, "online": state} for number, state in online.items()]
        if wanted and int(await self.command("guest-set-vcpus", vcpus=wanted)) != len(wanted):
            raise AgentFailed("the guest did not change all of the vCPUs")


def _without(states: dict[int, bool], gone: set[int]) -> dict[int, bool]:
    return {number: online for number, online in states.items() if number not in gone}


def _row(line: str) -> tuple[str, str, str]:
    return line.partition(":")


def _decoded(found: dict[str, Any], name: str) -> bytes:
    return base64.b64decode(found.get(name, ""))
