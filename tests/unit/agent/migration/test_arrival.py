"""A node that prepares for a VM while its runtime is unreachable."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from podfit.agent.migration.arrival import Arrivals
from podfit.agent.runtimes.values import RuntimeFailure, RuntimeSilent
from podfit.api.pods.migrations import FAILED, OFFERED, Migration, MigrationStep
from podfit.reconcile.result import DONE, Requeue

MIGRATION = Migration(OFFERED, "two", "one", "now")


class Parts:
    """All collaborators: no image except one that may be found later; the sandbox fails with the given error."""

    def __init__(self, mounts: Exception | None, found: Any) -> None:
        self._mounts, self._found = mounts, found
        self.reports: list[MigrationStep] = []
        self.runtime = self

    async def mount(self, _record: Any) -> float:
        if self._mounts is not None:
            raise self._mounts
        return 0.0

    async def resolve(self, _record: Any) -> None:
        return

    async def get(self, _record: Any, _container: Any) -> None:
        return

    async def image_status(self, _image: str, _handler: str) -> Any:
        if isinstance(self._found, Exception):
            raise self._found
        return self._found

    async def report(self, _record: Any, _migration: Migration, step: MigrationStep) -> bool:
        self.reports.append(step)
        return True


async def prepared(mounts: Exception | None = None, found: Any = None) -> tuple[Any, list[MigrationStep]]:
    parts: Any = Parts(mounts, found)
    waiting = {"vm": ("ErrImagePull", "container runtime is down")}
    pod = {"spec": {"containers": [{"name": "vm", "image": "guest:1"}]}}
    story = SimpleNamespace(add=lambda *_words: None)
    record: Any = SimpleNamespace(pod=pod, waiting=waiting, handler="vm", story=story)
    arrivals = Arrivals(parts, parts, parts, parts, parts, parts, parts, parts)
    return await arrivals._prepare(record, MIGRATION), parts.reports


@pytest.mark.parametrize(
    "how",
    [{"mounts": RuntimeSilent("away")}, {"found": RuntimeSilent("away")}, {"found": object()}],
    ids=["the sandbox", "the image", "the image, and it is back"],
)
async def test_a_runtime_that_restarts_is_called_again(how: dict[str, Any]) -> None:
    result, reports = await prepared(**how)
    assert isinstance(result, Requeue) and reports == []


@pytest.mark.parametrize(
    ("how", "why"),
    [({}, "ErrImagePull: container runtime is down"), ({"mounts": RuntimeFailure("no room")}, "no room")],
    ids=["no image", "no sandbox"],
)
async def test_a_refusal_by_the_runtime_ends_the_migration(how: dict[str, Any], why: str) -> None:
    assert await prepared(**how) == (DONE, [MigrationStep(FAILED, why)])
