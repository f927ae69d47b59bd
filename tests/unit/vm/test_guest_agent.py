"""The runtime's interpretation of qemu-guest-agent's responses."""

from __future__ import annotations

import base64
from typing import Any, cast

import pytest

from podfit.vm.machines.guest import AgentFailed, GuestAgent


class Answering(GuestAgent):
    """An agent with fixed responses. `shown`: the output of the command that it runs in the guest."""

    def __init__(self, found: list[dict[str, Any]], shown: str | None = None) -> None:
        super().__init__(cast(Any, None), "")
        self._found, self._shown = found, shown

    async def command(self, name: str, **arguments: Any) -> Any:
        if name in ("guest-get-memory-blocks", "guest-get-vcpus"):
            return self._found
        if self._shown is None:
            raise AgentFailed("The command guest-exec has been disabled")
        if name == "guest-exec":
            return {"pid": 1}
        return {"exited": True, "exitcode": 0, "out-data": base64.b64encode(self._shown.encode()).decode()}


def block(number: int, online: bool, can_offline: bool) -> dict[str, Any]:
    return {"phys-index": number, "online": online, "can-offline": can_offline}


def vcpu(number: int, online: bool, can_offline: bool) -> dict[str, Any]:
    return {"logical-id": number, "online": online, "can-offline": can_offline}


async def test_a_memory_block_that_the_kernel_is_still_adding_is_not_shown() -> None:
    agent = Answering([block(0, True, True), block(32, True, False)], shown="memory0/state\n")
    assert await agent.blocks() == {0: True}


async def test_memory_blocks_of_a_kernel_that_removes_none_are_online() -> None:
    agent = Answering([block(0, True, False), block(32, True, False)], shown="memory0/state\nmemory32/state\n")
    assert await agent.blocks() == {0: True, 32: True}


async def test_memory_blocks_that_can_go_offline_need_no_command_in_the_guest() -> None:
    assert await Answering([block(0, True, True), block(32, False, True)]).blocks() == {0: True, 32: False}


async def test_what_cannot_be_looked_up_is_unknown() -> None:
    with pytest.raises(AgentFailed, match="disabled"):
        await Answering([block(32, True, False)]).blocks()


async def test_a_vcpu_that_the_kernel_is_still_adding_is_not_shown() -> None:
    found = [vcpu(0, True, False), vcpu(1, True, True), vcpu(2, True, False)]
    assert await Answering(found, shown="0-1\n").vcpus() == {0: True, 1: True}


async def test_vcpus_of_a_kernel_without_hotplug_are_online() -> None:
    assert await Answering([vcpu(0, True, False), vcpu(1, True, False)], shown="0-1\n").vcpus() == {0: True, 1: True}


async def test_the_first_vcpu_needs_no_command_in_the_guest() -> None:
    assert await Answering([vcpu(0, True, False), vcpu(1, False, True)]).vcpus() == {0: True, 1: False}
