"""A containerd and the processes in its network namespace, for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.containers.containerd import Containerd, missing

from .programs import Programs


@pytest.fixture
def containerd(tmp_path: Path) -> Iterator[Containerd]:
    if why := missing():
        pytest.skip(why)
    made = Containerd(tmp_path / "containerd")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def programs(tmp_path: Path, containerd: Containerd) -> Iterator[Programs]:
    made = Programs(tmp_path, containerd)
    yield made
    made.stop()
