"""Fixtures for tests that need only an in-memory cluster and one of its nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.cluster.nodes import Cluster, TestNode


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path) as running:
        yield running


@pytest.fixture
async def node(cluster: Cluster) -> TestNode:
    return await cluster.node(capacity={"cpu": "2", "memory": "4Gi"})
