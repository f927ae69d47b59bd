"""What the tests of a module share: a cluster with VMs, as `podfit up --vm` starts it, or a VM runtime and a guest."""

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
    """A runtime, and the calls on its socket. A process has one libvirt: no test of the module may serve another."""
    folder = tmp_path_factory.mktemp("vm")
    async with serving(folder, guest_archive(folder)) as both:
        yield both


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guest(served: tuple[Any, Vms]) -> str:
    """A booted VM with 1 vCPU and 256 MiB. A test that changes its size leaves it as it will."""
    _, vms = served
    id = await vms.run("shared")
    await vms.booted(id)
    return id


@pytest.fixture
def short_path() -> Iterator[Path]:
    """libvirt puts sockets deep below it, and the path of a socket has 107 characters at most."""
    with tempfile.TemporaryDirectory(prefix="podfit-") as folder:
        yield Path(folder)
