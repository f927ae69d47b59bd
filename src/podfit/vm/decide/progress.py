"""The state of a VM's update in progress, as repeated and newer requests arrive.

A repeated request for the same target changes nothing. A newer target waits until the current step ends and then takes
over; it is never dropped. The value is part of the runtime's metadata, so a restarted runtime resumes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from podfit.vm.decide.sizes import Size


@dataclass(frozen=True)
class Update:
    target: Size
    running: bool = False
    """Whether a step towards `working_on` is in progress."""
    working_on: Size | None = None
    problem: str = ""
    """The reason why the last attempt did not reach the target."""
    attempts: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Update:
        working_on = Size(**data["working_on"]) if data["working_on"] else None
        return Update(**{**data, "target": Size(**data["target"]), "working_on": working_on})


def requested(update: Update | None, target: Size) -> Update:
    """The update after a request."""
    if update is None:
        return Update(target)
    if update.target == target:
        return update
    return replace(update, target=target, problem="", attempts=0)


def begun(update: Update) -> Update:
    return replace(update, running=True, working_on=update.target)


def ended(update: Update, actual: Size, problem: str = "") -> Update | None:
    """The update after a step that ended with the guest at `actual`; None if there is nothing left to do."""
    if actual == update.target:
        return None
    taken_over = update.working_on is not None and update.working_on != update.target
    if taken_over:
        return Update(update.target)
    return replace(update, running=False, working_on=None, problem=problem, attempts=update.attempts + 1)


def interrupted(update: Update) -> Update:
    """The update after a restart of the runtime: no step is running, and the target stands."""
    return replace(update, running=False, working_on=None)


def retry_after(attempts: int) -> float:
    """The seconds until the next attempt."""
    return float(min(30, 1 << min(attempts, 5)))
