"""Per-kind rules for writes: defaults, resets, validation. Pure functions on JSON, without I/O.

The verbs call, in Kubernetes' order: `default` after decoding, mutating admission, `prepare_*`, `validate_*`,
validating admission, then the store. `strategy_for(kind)` finds the strategy of a row of the table of kinds.
"""

from podfit.apiserver.strategy.base import Deletion, Strategy
from podfit.apiserver.strategy.table import strategy_for

__all__ = ["Deletion", "Strategy", "strategy_for"]
