"""An image store for each test, and a registry on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.containers.registry import LoopbackRegistry

from podfit.images.store import ImageStore


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    made = ImageStore(tmp_path / "images", durable=False)
    made.prepare()
    return made


@pytest.fixture
async def registry() -> AsyncIterator[LoopbackRegistry]:
    async with LoopbackRegistry() as running:
        yield running
