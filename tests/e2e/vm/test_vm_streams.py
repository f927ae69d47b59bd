"""Commands, console and usage of real guests, through the runtime's streaming server."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from tests.vms import Vms, needs_vms, until

from podfit.agent.runtimes.base import ExecStream
from podfit.agent.runtimes.cri import streaming
from podfit.agent.runtimes.values import CannotRun
from podfit.cri import api_pb2 as cri

pytestmark = [needs_vms, pytest.mark.asyncio(loop_scope="module")]


async def begin(vms: Vms, id: str, script: str, stdin: bool = False, tty: bool = False) -> ExecStream:
    request = cri.ExecRequest(
        container_id=id, cmd=["/bin/sh", "-c", script], stdin=stdin, stdout=True, stderr=not tty, tty=tty
    )
    answer = await vms.runtime["Exec"](request)
    return await streaming.start(answer.url, stdin, tty)


async def _answer(call: Any) -> Any:
    return await call


async def everything(stream: ExecStream) -> dict[int, bytes]:
    found = {1: b"", 2: b""}
    while (piece := await stream.read()) is not None:
        found[piece[0]] += piece[1]
    return found


async def test_commands_in_the_guest_have_streams_input_and_an_exit_code(served: tuple[Any, Vms], guest: str) -> None:
    _, vms = served
    id = guest
    failed = await begin(vms, id, "echo out; echo err >&2; exit 3")
    assert await everything(failed) == {1: b"out\n", 2: b"err\n"}
    assert await failed.wait() == 3
    echo = await begin(vms, id, "tr a-z A-Z", stdin=True)
    await echo.write(b"hello\n")
    await echo.close_stdin()
    assert (await everything(echo))[1] == b"HELLO\n"
    large = await begin(vms, id, "yes 0123456789abcdef | head -c 3000000")
    assert len((await everything(large))[1]) == 3_000_000

    async def clean() -> bool:
        return "podfit" not in await vms.exec(id, "ls -a /tmp")

    await until(clean)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guests boot slowly on a busy machine."""
    monkeypatch.setattr("podfit.vm.server.streaming.execs.BOOT_S", 120.0)


@pytest.mark.usefixtures("patience")
async def test_a_command_with_a_terminal_has_its_size_and_echoes_what_is_typed(served: tuple[Any, Vms]) -> None:
    _, vms = served
    async with vms.running("terminal") as id:
        # Not booted yet: commands wait for the guest.
        early = cri.ExecSyncRequest(container_id=id, cmd=["/bin/echo", "up"], timeout=120)
        waiting = asyncio.ensure_future(_answer(vms.runtime["ExecSync"](early)))
        shell = await begin(vms, id, "read line; stty size; tty; echo got $line; exit 4", stdin=True, tty=True)
        assert (await waiting).stdout == b"up\n"
        await shell.resize(101, 33)

        async def sized() -> bool:
            return "33 101" in await vms.exec(id, "for tty in /dev/pts/[0-9]*; do stty size <$tty; done; true")

        await until(sized, 90)
        await shell.write(b"hello\r")
        said = (await everything(shell))[1]
        assert said.startswith(b"hello\r\n33 101\r\n/dev/pts/") and said.endswith(b"got hello\r\n"), said
        assert await shell.wait() == 4
        await vms.exec(id, "mount -t tmpfs none /usr; rm /bin/script")
        with pytest.raises(CannotRun, match="no program `script`"):
            await (await begin(vms, id, "true", tty=True)).wait()


async def test_a_command_ends_with_its_timeout(served: tuple[Any, Vms], guest: str) -> None:
    _, vms = served
    late = cri.ExecSyncRequest(container_id=guest, cmd=["/bin/sleep", "4321"], timeout=1)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await vms.runtime["ExecSync"](late)
    assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED

    async def gone() -> bool:
        return await vms.exec(guest, "pgrep sleep || echo none") == "none\n"

    await until(gone)


async def test_a_command_for_a_guest_without_an_agent_is_refused_with_what_it_lacks(
    served: tuple[Any, Vms], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podfit.vm.server.streaming.execs.BOOT_S", 1.0)
    _, vms = served
    async with vms.running("mute", _cmdline="console=ttyS0 podfit.agent=off") as id:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await vms.exec(id, "true")
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "qemu-guest-agent" in (refused.value.details() or "")


async def test_the_serial_console_takes_keys_and_shows_what_is_written(served: tuple[Any, Vms], guest: str) -> None:
    _, vms = served
    id = guest
    answer = await vms.runtime["Attach"](cri.AttachRequest(container_id=id, stdin=True, stdout=True, tty=True))
    console = await streaming.start(answer.url, True, True)
    await console.write(b"echo sum $((20 + 22))\n")
    seen = b""
    while b"sum 42" not in seen:
        piece = await console.read()
        assert piece is not None
        seen += piece[1]
    await console.close()


async def test_usage_is_what_the_guest_uses_and_what_qemu_uses(served: tuple[Any, Vms], guest: str) -> None:
    _, vms = served
    id = guest

    async def used() -> cri.ContainerStats:
        found = await vms.runtime["ContainerStats"](cri.ContainerStatsRequest(container_id=id))
        stats: cri.ContainerStats = found.stats
        return stats

    before = await used()
    assert before.cpu.usage_core_nano_seconds.value > 0
    await vms.exec(id, "mount -t tmpfs -o size=200m hog /mnt; dd if=/dev/zero of=/mnt/hog bs=1M count=60")

    async def grown() -> bool:
        now = (await used()).memory
        return now.working_set_bytes.value > before.memory.working_set_bytes.value + (50 << 20)

    await until(grown)
    assert (await used()).memory.usage_bytes.value > 60 << 20
    listed = await vms.runtime["ListPodSandboxStats"](cri.ListPodSandboxStatsRequest())
    assert len(listed.stats) == 1 and len(listed.stats[0].linux.containers) == 1
    await vms.exec(id, "umount /mnt")
