"""Which strategy a kind has. Kinds without a row here get the plain one."""

from __future__ import annotations

from functools import lru_cache

from podfit.api.kinds import Kind
from podfit.apiserver.strategy.base import Strategy
from podfit.apiserver.strategy.pods import PodStrategy

_TABLE: dict[tuple[str, str], type[Strategy]] = {("", "Pod"): PodStrategy}


@lru_cache(maxsize=1024)
def strategy_for(kind: Kind) -> Strategy:
    """The strategy of a row of the table of kinds."""
    return _TABLE.get((kind.group, kind.kind), Strategy)(kind)
