"""Fixtures of a module: a cluster with VMs, started by `podfit up --vm`, or a VM runtime with a guest."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.e2e.conftest import Running
from tests.kernelnet import leftovers
from tests.vms import Vms, guest_archive, podfit, serving, share_cache


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("vm-up")
    podfit("image", "load", str(guest_archive(folder)), "--data-dir", str(folder / "data"))
    share_cache(folder / "data/vm/libvirt")
    running = Running(folder / "data", "--vm", "--node-cpu", "8", "--node-memory", "8Gi", "--image-fallback", "host")
    from podfit.vm.machines.process import Orphans, Processes

    running.start()
    # VMs that a killed runtime leaves behind may become children of this process.
    with Orphans(Processes()).reaped():
        yield running
        running.stop()
        podfit("down", "--data-dir", str(folder / "data"))
    mark = hashlib.sha256(f"vm {folder / 'data/vm/network'}".encode()).hexdigest()[:8]
    assert leftovers(mark) == []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Any, Vms]]:
    """A runtime, and a client of its socket. A process has one libvirt, so all tests of a module share the runtime."""
    folder = tmp_path_factory.mktemp("vm")
    async with serving(folder, guest_archive(folder)) as both:
        yield both


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guest(served: tuple[Any, Vms]) -> str:
    """A booted VM with 1 vCPU and 256 MiB. Tests may leave it at another size."""
    _, vms = served
    id = await vms.run("shared")
    await vms.booted(id)
    return id


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A short path: libvirt creates sockets deep below it, and the path of a socket has at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="podfit-") as folder:
        yield Path(folder)
