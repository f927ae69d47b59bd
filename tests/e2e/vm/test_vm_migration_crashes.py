"""A migration during which a runtime is killed before or after any of its writes: the VM runs exactly once, and
is the same VM.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.e2e.vm.test_vm_migration import BOOT_ID, Host, arrived, host, prepared, two_hosts
from tests.libvirtds import Libvirtd, libvirtds, needs_libvirtd
from tests.sabotage import Saboteur
from tests.vms import Vms, guest_archive, needs_vms, process, until

from podfit.cri import api_pb2 as cri

pytestmark = [needs_vms, needs_libvirtd]
MOST_WRITES = 20
RUNNING = cri.ContainerState.CONTAINER_RUNNING


class Pair:
    """Two runtimes, each of which can be killed and restarted."""

    def __init__(self, folder: Path, daemons: list[Libvirtd], archive: Path) -> None:
        self._folder, self._daemons, self._archive = folder, daemons, archive
        self._stacks = [contextlib.AsyncExitStack(), contextlib.AsyncExitStack()]
        self.hosts: list[Host] = []

    async def start(self, at: int) -> Host:
        own = host(self._folder / "ab"[at], self._daemons[at], self._archive, keep=True)
        return await self._stacks[at].enter_async_context(own)

    async def open(self) -> None:
        self.hosts = [await self.start(0), await self.start(1)]

    async def restart(self, at: int) -> None:
        await self._stacks[at].aclose()
        self._stacks[at] = contextlib.AsyncExitStack()
        self.hosts[at] = await self.start(at)

    async def close(self) -> None:
        for entry in self.hosts:
            await entry.vms.remove_all()
        for stack in self._stacks:
            await stack.aclose()

    async def running(self, id: str) -> list[int]:
        """The places where a guest with this ID runs."""
        return [at for at, item in enumerate(self.hosts) if await executes(item, id)]


async def executes(entry: Host, id: str) -> bool:
    uuid = f"{id[:8]}-{id[8:12]}-{id[12:16]}-{id[16:20]}-{id[20:32]}"
    if uuid not in await entry.runtime.hypervisor.names():
        return False
    state = await entry.runtime.hypervisor.on(uuid, lambda domain: domain.state()[0])
    return bool(state == 1)


@contextlib.asynccontextmanager
async def pair(folder: Path) -> AsyncIterator[Pair]:
    archive = guest_archive(folder)
    with libvirtds(folder, "one", "two") as daemons:
        both = Pair(folder, daemons, archive)
        await both.open()
        try:
            yield both
        finally:
            await both.close()


def watch(saboteur: Saboteur, entry: Host, leaves: bool) -> None:
    runtime = entry.runtime
    saboteur.watch(runtime.records, "save", "save_sandbox")
    saboteur.watch(runtime.cgroups, "create", "write", "adopt")
    if leaves:
        saboteur.watch(runtime.departures, "_migrate")


async def go(both: Pair, source: int, id: str) -> None:
    """Makes the calls of both nodes' agents to their runtimes, until one fails."""
    with contextlib.suppress(grpc.aio.AioRpcError, TimeoutError):
        one, other = both.hosts[source], both.hosts[1 - source]
        place = await prepared(one, other, id, "guest")
        await one.vms.migrations["Move"]({"id": id, "place": place})
        async with asyncio.timeout(3):
            await arrived(other, id)


async def go_on(both: Pair, source: int, id: str) -> None:
    """Repeats the agents' calls until the migration has succeeded or failed."""
    one, other = both.hosts[source], both.hosts[1 - source]
    if (await one.vms.status(id)).state != RUNNING:
        return
    with contextlib.suppress(grpc.aio.AioRpcError):
        place = await prepared(one, other, id, "guest")
        await one.vms.migrations["Move"]({"id": id, "place": place})
    if one.runtime.container(id).moved:
        await arrived(other, id)


async def give_up(both: Pair, source: int, id: str) -> bool:
    """Records the failure if the source confirms that it has the VM; then the preparation at the target is removed."""
    try:
        await both.hosts[source].vms.migrations["Stay"]({"id": id})
    except grpc.aio.AioRpcError:
        return False
    await both.hosts[1 - source].vms.remove_all()
    return True


def points() -> Iterator[tuple[int, bool]]:
    yield from product(range(MOST_WRITES), (False, True))


@pytest.mark.slow
@pytest.mark.parametrize("who", ["source", "target"])
async def test_a_runtime_killed_at_any_write_neither_loses_the_vm_nor_runs_it_twice(short_path: Path, who: str) -> None:
    async with pair(short_path) as both:
        id = await both.hosts[0].vms.run("guest", folder=short_path / "logs")
        await both.hosts[0].vms.booted(id)
        boot, source, count = await both.hosts[0].vms.exec(id, BOOT_ID), 0, 0
        for at, after in points():
            saboteur = Saboteur()
            victim = source if who == "source" else 1 - source
            watch(saboteur, both.hosts[victim], leaves=who == "source")
            saboteur.arm(at, after)
            await go(both, source, id)
            died = saboteur.dead
            saboteur.disarm()
            await both.restart(victim)
            if count % 3 or not await give_up(both, source, id):
                await go_on(both, source, id)
            [where] = await both.running(id)
            assert await both.hosts[where].vms.exec(id, BOOT_ID) == boot, f"killed at {at}"
            assert (await both.hosts[where].vms.status(id)).state == RUNNING
            await both.hosts[1 - where].vms.remove_all()
            assert await both.running(id) == [where], f"killed at {at}"
            source, count = where, count + 1
            if not died:
                break
        assert count > 4


async def test_a_move_whose_answer_is_lost_is_known_to_have_happened(short_path: Path) -> None:
    async with two_hosts(short_path) as (source, target):
        from podfit.vm.machines.hypervisor import LibvirtFailed

        id = await source.vms.run("guest")
        await source.vms.booted(id)
        boot, real = await source.vms.exec(id, BOOT_ID), source.runtime.departures._migrate

        async def migrate(*arguments: Any) -> None:
            await real(*arguments)
            raise LibvirtFailed("the answer is lost", 38)

        source.runtime.departures._migrate = migrate
        place = await prepared(source, target, id, "guest")
        await source.vms.migrations["Move"]({"id": id, "place": place})
        with pytest.raises(grpc.aio.AioRpcError, match="has already been migrated"):
            await source.vms.migrations["Stay"]({"id": id})
        await arrived(target, id)
        assert await target.vms.exec(id, BOOT_ID) == boot


async def test_a_runtime_killed_during_a_migration_resumes_it(short_path: Path) -> None:
    archive = guest_archive(short_path)
    with libvirtds(short_path, "one", "two") as (one, two):
        words = ("--libvirt-socket", one.socket, "--image-archive", str(archive))
        async with host(short_path / "b", two, archive) as target:
            async with process(short_path / "a", *words) as running:
                vms = Vms(short_path / "a/vm.sock")
                source = Host(one, short_path / "a", None, vms)
                id = await vms.run("guest")
                await vms.booted(id)
                boot = await vms.exec(id, BOOT_ID)
                place = await prepared(source, target, id, "guest")
                move = asyncio.ensure_future(vms.migrations["Move"]({"id": id, "place": place}))

                async def under_way() -> bool:
                    return bool(await target.runtime.hypervisor.names())

                await until(under_way)
                running.kill()
                await asyncio.gather(move, return_exceptions=True)
                await vms.close()
            async with process(short_path / "a", *words):
                vms = Vms(short_path / "a/vm.sock")
                await vms.migrations["Move"]({"id": id, "place": place})
                await arrived(target, id)
                assert await target.vms.exec(id, BOOT_ID) == boot
                await vms.remove_all()
                await vms.close()
                assert await target.vms.exec(id, BOOT_ID) == boot
