"""What a node reports of a VM that leaves it: a failure only when its runtime has said that the VM stays."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from podfit.agent.migration.departure import Departures
from podfit.agent.runtimes.values import RUNNING, RuntimeFailure, RuntimeSilent
from podfit.api.pods.migrations import FAILED, PREPARED, Migration, MigrationStep

MIGRATION = Migration(PREPARED, "one", "two", "now", place={"uri": "x"})
SILENT, BROKEN = RuntimeSilent("away"), RuntimeFailure("the disk is full")


class Runtime:
    """Answers with what it is given, in that order; None is success."""

    def __init__(self, moves: list[Exception | None], stays: list[Exception | None]) -> None:
        self._moves, self._stays = moves, stays

    async def move(self, _id: str, _place: dict[str, Any]) -> None:
        _answer(self._moves)

    async def stay(self, _id: str) -> None:
        _answer(self._stays)

    @property
    def exhausted(self) -> bool:
        return not self._moves and not self._stays


def _answer(answers: list[Exception | None]) -> None:
    found = answers.pop(0)
    if found is not None:
        raise found


class Pauses:
    async def sleep(self, _seconds: float) -> None:
        return


def record(state: str = RUNNING) -> Any:
    container = SimpleNamespace(id="vm", state=state)
    story = SimpleNamespace(add=lambda *_words: None)
    return SimpleNamespace(state=SimpleNamespace(containers=[container]), story=story, who="default/guest")


async def reported(runtime: Runtime, about: Any) -> MigrationStep | None:
    steps: Any = SimpleNamespace(runtime=lambda _record: runtime, node_name="one")
    nothing: Any = None
    core: Any = SimpleNamespace(events=None, clock=Pauses(), tasks=None)
    return await Departures(core, steps, nothing)._move(about, MIGRATION)


@pytest.mark.parametrize(
    ("moves", "stays"),
    [
        ([None], []),
        ([SILENT] * 500 + [None], []),
        ([BROKEN, None], [RuntimeFailure("the VM has already been migrated")]),
        ([BROKEN, SILENT, None], [SILENT]),
    ],
    ids=["moved", "silent for long", "failed after it had left", "failed and then silent"],
)
async def test_a_vm_that_has_left_is_never_reported_as_failed(
    moves: list[Exception | None], stays: list[Exception | None]
) -> None:
    runtime = Runtime(moves, stays)
    assert await reported(runtime, record()) is None
    assert runtime.exhausted


async def test_a_failure_is_reported_once_the_runtime_says_that_the_vm_stays() -> None:
    step = await reported(Runtime([BROKEN, BROKEN], [SILENT, None]), record())
    assert step == MigrationStep(FAILED, "the disk is full")


async def test_a_vm_that_has_ended_does_not_move() -> None:
    step = await reported(Runtime([], []), record("exited"))
    assert step == MigrationStep(FAILED, "the VM has stopped")
