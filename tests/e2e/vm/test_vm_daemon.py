"""VMs of a libvirt daemon: resized like those of libvirt in the process, and kept while the daemon is away."""

from __future__ import annotations

import contextlib
from pathlib import Path

import grpc
import pytest
from tests.libvirtds import libvirtds, needs_libvirtd
from tests.vms import Vms, guest_archive, needs_vms, serving, until

from podfit.cri import api_pb2 as cri

pytestmark = [needs_vms, needs_libvirtd]


async def ready(vms: Vms) -> cri.RuntimeCondition:
    answer = await vms.runtime["Status"](cri.StatusRequest())
    return next(condition for condition in answer.status.conditions if condition.type == "RuntimeReady")


async def test_a_vm_survives_its_libvirt_daemon_and_is_resized_when_that_is_back(short_path: Path) -> None:
    with libvirtds(short_path, "host") as (daemon,):
        folder = short_path / "vm"
        async with serving(folder, guest_archive(short_path), libvirt_socket=daemon.socket) as (runtime, vms):
            id = await vms.run("guest")
            await vms.booted(id)
            await vms.resize(id, 2, 384)
            container = runtime.container(id)
            assert runtime.cgroups.usage(container.group).memory_bytes > 50 << 20
            before = (await vms.exec(id, "cat /proc/sys/kernel/random/boot_id")).strip()

            daemon.kill()

            async def reported() -> bool:
                return not (await ready(vms)).status

            await until(reported, 60)
            assert (await ready(vms)).reason == "LibvirtGone"
            with pytest.raises(grpc.aio.AioRpcError) as away:
                await vms.resize(id, 1, 384)
            assert away.value.code() is grpc.StatusCode.UNAVAILABLE
            daemon.start()

            async def back() -> bool:
                return bool((await ready(vms)).status)

            await until(back, 60)
            await vms.booted(id)
            assert (await vms.exec(id, "cat /proc/sys/kernel/random/boot_id")).strip() == before
            await vms.resize(id, 2, 512)
            assert await vms.size(id) == (2, 512)
            await vms.stop(id, grace=60)
            status = await vms.status(id)
            assert (status.exit_code, status.reason) == (0, "Completed")


async def test_a_vm_that_ended_while_its_daemon_was_away_is_reported_as_ended(short_path: Path) -> None:
    with libvirtds(short_path, "host") as (daemon,):
        async with serving(short_path / "vm", guest_archive(short_path), libvirt_socket=daemon.socket) as (_, vms):
            id = await vms.run("guest")
            daemon.kill()
            daemon.end_vms()

            async def ended() -> bool:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    return bool((await vms.status(id)).state == cri.ContainerState.CONTAINER_EXITED)
                return False

            await until(ended, 60)
            daemon.start()

            async def another_runs() -> bool:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    return bool(await vms.run("other"))
                return False

            await until(another_runs, 60)
            assert (await vms.status(id)).exit_code != 0
