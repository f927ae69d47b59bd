"""Every component of a cluster is Kubernetes' own or podfit's: sixteen combinations pass the same sixteen steps."""

from __future__ import annotations

import json
import os
import time
from itertools import product

import pytest

from podfit.api.status import ApiError
from podfit.client.transport import Unreachable

from .programs import PARTS, Programs, lacking
from .starting import last_lines, start
from .story import Story

ALL = [dict(zip(PARTS, chosen, strict=True)) for chosen in product((True, False), repeat=len(PARTS))]
"""For each component, whether it is Kubernetes' own."""
CHEAP = ("our-our-our-our",)
RESULTS = "PODFIT_SWAP_RESULTS"
"""Names a file to which outcomes are appended, one line of JSON for each combination."""

pytestmark = pytest.mark.root


def title(theirs: dict[str, bool]) -> str:
    """API server, controllers, scheduler, node."""
    return "-".join("real" if real else "our" for real in theirs.values())


def marked(theirs: dict[str, bool]) -> object:
    slow = () if title(theirs) in CHEAP else (pytest.mark.slow,)
    return pytest.param(theirs, id=title(theirs), marks=slow)


async def tell(story: Story, programs: Programs) -> list[tuple[str, str]]:
    """Each step with "" or its failure; no step runs after one that failed."""
    outcomes = []
    for step in story.steps():
        name = step.__name__.replace("_", " ")
        try:
            await step()
        except (AssertionError, ApiError, Unreachable, TimeoutError) as error:
            outcomes.append((name, f"{type(error).__name__}: {error}"[:2000]))
            break
        outcomes.append((name, ""))
    return outcomes


@pytest.mark.parametrize("theirs", [marked(item) for item in ALL])
async def test_the_scenario_has_the_same_outcome_with_every_combination_of_components(
    theirs: dict[str, bool], programs: Programs
) -> None:
    if absent := lacking([part for part, real in theirs.items() if real]):
        pytest.skip(f"$PODFIT_KUBERNETES has no {', no '.join(absent)}")
    began = time.monotonic()
    client = await start(programs, theirs)
    try:
        outcomes = await tell(Story(client, programs.config("admin")), programs)
    finally:
        await client.close()
    if named := os.environ.get(RESULTS):
        line = {"parts": theirs, "steps": outcomes, "seconds": round(time.monotonic() - began)}
        with open(named, "a") as file:
            file.write(json.dumps(line) + "\n")
    failed = {name: why for name, why in outcomes if why}
    assert not failed, f"{failed}\n{last_lines(programs)}"
    assert len(outcomes) == 16
