"""Creates the history store that `--storage` selects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from podfit.kit.clock import Clock
from podfit.vpa.history.base import History, NoHistory
from podfit.vpa.history.local import LocalHistory
from podfit.vpa.history.plugged import BUILT_IN, plugged
from podfit.vpa.history.prometheus import PrometheusHistory

if TYPE_CHECKING:
    from podfit.vpa.recommender.config import RecommenderConfig


def history_for(config: RecommenderConfig, clock: Clock) -> History:
    """The history selected by `--storage`."""
    if config.storage == "prometheus":
        return PrometheusHistory(config.prometheus, namespace=config.vpa_object_namespace, clock=clock)
    if config.storage == "local":
        days = config.prometheus.history_length / 86400.0
        return LocalHistory(Path(config.history_file), days=days, clock=clock)
    if config.storage not in BUILT_IN:
        return plugged(config.storage)(config, clock)
    return NoHistory()
