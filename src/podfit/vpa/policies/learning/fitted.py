"""Constants that were fitted to public traces, read from `fitted.json`; `scripts/fit-policies` writes that file."""

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
    """How often each expert of a family was short on public traces: in an hour (CPU), or in a day (memory)."""
    rates = constants()["prior"].get(policy, {}).get(resource, {}).get(family)
    return np.asarray(rates) if rates and len(rates) == count else np.zeros(count)
