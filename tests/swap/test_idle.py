"""Kubernetes' own components on podfit's API server without work: every informer syncs, and no error repeats."""

from __future__ import annotations

import asyncio
import os

import pytest

from podfit.api.registry.kinds import NODE as NODES
from tests.support.cluster.expect import becomes

from .logs import problems, repeated
from .programs import NODE, PARTS, Programs, lacking
from .starting import start
from .story import holds

REAL = {"apiserver": False, "controllers": True, "scheduler": True, "node": True}
ABSENT = lacking([part for part, real in REAL.items() if real])
IDLE_S = float(os.environ.get("PODFIT_IDLE_S", "60"))
"""How long the cluster is idle."""
MOST = 3
"""A retry may resolve an error; an error written more often than this is not going to end."""


def test_error_lines_are_counted_without_their_numbers() -> None:
    lines = [
        'E1118 13:40:40.645910   29549 conn.go:353] "Error on socket receive" port=35098',
        'E1118 13:40:41.645910   29549 conn.go:353] "Error on socket receive" port=35099',
        "I1118 13:40:29.276729   29549 cidrallocator.go:302] created",
    ]
    assert list(problems(lines).values()) == [2] and not repeated(lines, 2) and repeated(lines, 1)


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.skipif(bool(ABSENT), reason=f"$PODFIT_KUBERNETES has no {', no '.join(ABSENT)}")
async def test_real_parts_on_our_api_server_log_no_repeating_error(programs: Programs) -> None:
    client = await start(programs, REAL)
    try:
        await becomes(client, NODES, "", NODE, holds("Ready"), 180.0)
        began = {part: len(lines_of(programs, part)) for part in PARTS}
        await asyncio.sleep(IDLE_S)
    finally:
        await client.close()
    found = {part: repeated(lines_of(programs, part)[began[part] :], MOST) for part in PARTS if REAL[part]}
    assert not any(found.values()), found


def lines_of(programs: Programs, part: str) -> list[str]:
    return programs.log(part).read_text(errors="replace").splitlines()
