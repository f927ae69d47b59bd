"""Requests generated from the server's own OpenAPI document cause no crash, no 5xx of podfit's own, no
traceback and no growth.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


campaign = _load("api_campaign")
SHORT = 25_000
"""The requests of the short campaign, which takes a minute on a slow machine."""
LONG = int(os.environ.get("PODFIT_FUZZ_REQUESTS") or 1_000_000)
MOST_GROWTH_MB = 200
"""The memory that a campaign may use beyond that of its first requests, for its largest bodies."""


def holds(seed: int, requests: int) -> None:
    outcome = asyncio.run(campaign.Campaign(seed).run(requests))
    assert not outcome.problems, f"{len(outcome.problems)} problems; the first:\n{outcome.problems[0]}"
    assert outcome.requests == requests
    assert outcome.grown_mb < MOST_GROWTH_MB


def test_a_short_campaign_finds_nothing() -> None:
    holds(seed=1, requests=SHORT)


@pytest.mark.slow
def test_a_long_campaign_finds_nothing() -> None:
    holds(seed=2, requests=LONG)


def test_a_campaign_reaches_validation_and_the_store() -> None:
    outcome = asyncio.run(campaign.Campaign(5).run(1500))
    assert {200, 201, 400, 404, 405, 409, 422} <= outcome.codes.keys()


def test_a_campaign_is_the_same_for_the_same_seed() -> None:
    one, other = (asyncio.run(campaign.Campaign(4).run(300)).codes for _ in range(2))
    assert one == other


def test_a_campaign_notices_a_5xx_and_a_traceback() -> None:
    answer = campaign.Response(500, b'{"message": "Internal error occurred: the server has an error of its own"}')
    assert campaign.wrong_with(answer)
    assert not campaign.wrong_with(campaign.Response(422, b"{}"))
