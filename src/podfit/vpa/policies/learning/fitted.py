"""Constants fitted to public traces. They are read from `fitted.json`, which `scripts/fit-policies` writes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from podfit.vpa.policies.learning.hours import Array
from podfit.vpa.policies.learning.traits import LEVELS, NAMES

FILE = Path(__file__).with_name("fitted.json")


@cache
def constants() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text())
    if found["traits"] != [*NAMES, *LEVELS]:
        raise ValueError("fitted.json was written for other traits: run scripts/fit-policies")
    return found


def both_signs(traits: list[Array]) -> list[Array]:
    """Each trait twice: as it is, and only where it is negative."""
    return [*traits, *(np.minimum(trait, 0.0) for trait in traits)]


def prior(policy: str, resource: str, family: str, count: int) -> Array:
    """How often each expert of a family was short on public traces: per hour (CPU) or per day (memory)."""
    rates = constants()["prior"].get(policy, {}).get(resource, {}).get(family)
    return np.asarray(rates) if rates and len(rates) == count else np.zeros(count)
