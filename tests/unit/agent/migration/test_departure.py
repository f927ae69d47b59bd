"""A node reports that a VM's migration failed only when its runtime has confirmed that the VM stays."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from podfit.agent.migration.departure import Departures
from podfit.agent.runtimes.values import RUNNING, RuntimeFailure, RuntimeSilent
from podfit.api.pods.migrations import ANNOTATION, FAILED, OFFERED, PREPARED, Migration, MigrationStep

MIGRATION = Migration(PREPARED, "one", "two", "now", place={"uri": "x"})
SILENT, BROKEN = RuntimeSilent("away"), RuntimeFailure("the disk is full")
NONE: list[Exception | None] = []


class Runtime:
    """Returns the given results in that order; None is success."""

    def __init__(
        self, moves: list[Exception | None], stays: list[Exception | None], offers: list[Exception | None] = NONE
    ) -> None:
        self._moves, self._stays, self._offers = moves, stays, list(offers)

    async def move(self, _id: str, _place: dict[str, Any]) -> None:
        _answer(self._moves)

    async def stay(self, _id: str) -> None:
        _answer(self._stays)

    async def offer(self, _id: str) -> dict[str, Any]:
        _answer(self._offers)
        return {"id": "vm"}

    @property
    def exhausted(self) -> bool:
        return not self._moves and not self._stays


def _answer(answers: list[Exception | None]) -> None:
    found = answers.pop(0)
    if found is not None:
        raise found


class Pauses:
    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self._now += seconds


def record(state: str = RUNNING) -> Any:
    container = SimpleNamespace(id="vm", state=state)
    story = SimpleNamespace(add=lambda *_words: None)
    return SimpleNamespace(state=SimpleNamespace(containers=[container]), story=story, who="default/guest", pod={})


def departures(runtime: Runtime) -> Departures:
    steps: Any = SimpleNamespace(runtime=lambda _record: runtime, node_name="one")
    nothing: Any = None
    events = SimpleNamespace(emit=lambda *_words: None)
    core: Any = SimpleNamespace(events=events, clock=Pauses(), tasks=None)
    return Departures(core, steps, nothing)


async def reported(runtime: Runtime, about: Any) -> MigrationStep | None:
    return await departures(runtime)._move(about, MIGRATION)


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


@pytest.mark.parametrize(
    ("offers", "phase"),
    [([SILENT] * 5 + [None], OFFERED), ([BROKEN], FAILED), ([SILENT] * 500, FAILED)],
    ids=["silent for a moment", "refused", "silent for long"],
)
async def test_a_restarted_runtime_is_called_again_for_its_offer(offers: list[Exception | None], phase: str) -> None:
    step = await departures(Runtime([], [], offers))._offer(record(), MIGRATION)
    assert step.phase == phase


@pytest.mark.parametrize(("followed", "count"), [(None, 0), (("now", 0.0), 1)], ids=["another agent", "this agent"])
async def test_a_failure_is_an_event_of_the_agent_that_followed_the_migration(followed: Any, count: int) -> None:
    failed = Migration(FAILED, "one", "two", "now", "the disk is full")
    about = record()
    about.pod = {"metadata": {"annotations": {ANNOTATION: failed.text()}}}
    about.stayed, about.moving_since = "", followed
    found = departures(Runtime([], [None]))
    emitted: list[Any] = []
    found._events = cast(Any, SimpleNamespace(emit=lambda *words: emitted.append(words)))
    await found.settle(about)
    await found.settle(about)
    assert len(emitted) == count and about.stayed == "now"
