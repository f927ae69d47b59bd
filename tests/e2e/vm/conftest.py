"""A cluster with VMs, as `podfit up --vm` starts it, for all tests of a module."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.conftest import Running
from tests.kernelnet import leftovers
from tests.vms import guest_archive, podfit, share_cache


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


@pytest.fixture
def short_path() -> Iterator[Path]:
    """libvirt puts sockets deep below it, and the path of a socket has 107 characters at most."""
    with tempfile.TemporaryDirectory(prefix="podfit-") as folder:
        yield Path(folder)
