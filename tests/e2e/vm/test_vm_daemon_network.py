"""VMs of a libvirt daemon in the pod network, before and after they move to another node."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from tests.e2e.vm.test_vm_migration import BOOT_ID, Host, moved
from tests.e2e.vm.test_vm_network import address_of, page
from tests.kernelnet import leftovers, links
from tests.libvirtds import Libvirtd, libvirtds, needs_libvirtd
from tests.vms import guest_archive, needs_vms, serving, until

from podfit.podnet.support import missing_for_bridge

pytestmark = [needs_vms, needs_libvirtd, pytest.mark.skipif(bool(missing_for_bridge()), reason="no bridges here")]


@contextlib.asynccontextmanager
async def bridged(folder: Path, daemon: Libvirtd, archive: Path, keep: bool = False) -> AsyncIterator[Host]:
    settings = {"libvirt_socket": daemon.socket, "libvirt_folder": folder / "lv", "network": "bridge"}
    async with serving(folder, archive, keep, **settings) as (runtime, vms):
        yield Host(daemon, folder, runtime, vms)


async def shows_its_page(address: str) -> bool:
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(2):
            return b"a VM pod" in await page(address)
    return False


async def reaches(host: Host, id: str, address: str) -> bool:
    """Whether the guest reaches a server on the node."""

    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nhello")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, address, 0)
    port = server.sockets[0].getsockname()[1]
    try:
        return "hello" in await host.vms.exec(id, f"echo | nc -w 5 {address} {port}")
    finally:
        server.close()


async def test_a_guest_of_a_libvirt_daemon_is_reached_at_the_pods_address(short_path: Path) -> None:
    archive = guest_archive(short_path)
    with libvirtds(short_path, "host") as (daemon,):
        async with bridged(short_path / "vm", daemon, archive, keep=True) as one:
            id = await one.vms.run("reached")
            await one.vms.booted(id)
            _, address = await address_of(one.vms)
            assert await shows_its_page(address)
        async with bridged(short_path / "vm", daemon, archive) as one:
            assert await shows_its_page(address), "also after a restart of the runtime"
            mark = one.runtime.networks._pods._mark
    assert leftovers(mark) == []
    assert not [name for name in links() if name.startswith("pftap")]


async def test_a_guest_that_moved_is_reached_at_the_address_that_its_new_pod_sandbox_reports(short_path: Path) -> None:
    archive = guest_archive(short_path)
    with libvirtds(short_path, "one", "two") as (one, two):
        async with bridged(short_path / "a", one, archive) as source, bridged(short_path / "b", two, archive) as target:
            id = await source.vms.run("guest")
            await source.vms.booted(id)
            _, before = await address_of(source.vms)
            gateway = next(iter(source.runtime.records.sandboxes.values())).lease.gateway
            assert await reaches(source, id, gateway)
            boot = await source.vms.exec(id, BOOT_ID)

            await moved(source, target, id, "guest")
            await source.vms.remove_all()

            _, after = await address_of(target.vms)
            assert after and after != before
            await until(lambda: shows_its_page(after), 30)
            assert await target.vms.exec(id, BOOT_ID) == boot
            outer = target.runtime.networks._pods.of("uid-guest")
            assert outer is not None and outer.ips == (after,)
            assert await reaches(target, id, f"{after.rpartition('.')[0]}.1")
            await target.runtime.lives.machine(target.runtime.container(id)).reset()

            async def rebooted() -> bool:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    return await target.vms.exec(id, BOOT_ID) != boot
                return False

            await until(rebooted, 90)
            assert await shows_its_page(after), "also after it rebooted"


async def test_a_guest_with_an_address_does_not_move_to_a_node_that_gives_none(short_path: Path) -> None:
    archive = guest_archive(short_path)
    with libvirtds(short_path, "one", "two") as (one, two):
        other = {"libvirt_socket": two.socket, "libvirt_folder": short_path / "b/lv", "network": "none"}
        async with (
            bridged(short_path / "a", one, archive) as source,
            serving(short_path / "b", archive, **other) as (
                runtime,
                vms,
            ),
        ):
            id = await source.vms.run("guest")
            with pytest.raises(grpc.aio.AioRpcError, match="pod network"):
                await moved(source, Host(two, short_path / "b", runtime, vms), id, "guest")
