"""Custom history backends. A package registers one in the entry point group `podfit.history`; `--storage=NAME` selects
it.

An entry point is a function `(RecommenderConfig, Clock) -> History`. `tests/contract/test_history.py` is the contract
test suite of every history.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from podfit.kit.clock import Clock
from podfit.vpa.flags import BadFlag
from podfit.vpa.history.base import History

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUP = "podfit.history"
BUILT_IN = ("", "checkpoint", "prometheus", "local")
Maker = Callable[[Any, Clock], History]


def _points() -> EntryPoints:
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def names() -> list[str]:
    return sorted(point.name for point in _points())


def check(storage: str) -> None:
    """Raises BadFlag if no plugin provides this storage."""
    if storage not in BUILT_IN and storage not in names():
        known = ", ".join(["checkpoint", *names(), "prometheus"])
        raise BadFlag(f'invalid argument "{storage}" for "--storage" flag: it is {known} or local')


def plugged(name: str) -> Maker:
    """The constructor of the history that a package registers under this name. Raises BadFlag if it cannot be
    loaded."""
    point = next(point for point in _points() if point.name == name)
    try:
        made: Maker = point.load()
    except Exception as error:
        raise BadFlag(f"--storage={name}: {point.value} cannot be loaded: {error}") from error
    return made
