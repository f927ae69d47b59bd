"""The prices of wrong sizes, as users write them: `oom-day=1000`. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from podfit.api.quantity import Quantity
from podfit.vpa.policies.base import Costs

PRICES = {"oom-day": "oom_day", "short": "short", "burst": "burst", "drop": "drop", "memory-drop": "memory_drop"}
"""The names of the prices and their fields in `Costs`."""


def priced(words: Iterable[str]) -> Costs:
    """The default prices with those that were given. Raises ValueError with a message for the user."""
    costs = Costs()
    for word in words:
        name, _, text = word.partition("=")
        if name not in PRICES:
            raise ValueError(f"{word!r}: a price is one of {', '.join(PRICES)}, with its value: oom-day=1000")
        try:
            value = Quantity.parse(text).milli / 1000.0
        except ValueError:
            raise ValueError(f"{word!r}: {text!r} is no number") from None
        if value < 0:
            raise ValueError(f"{word!r}: a price cannot be negative")
        costs = replace(costs, **{PRICES[name]: value})
    return costs
