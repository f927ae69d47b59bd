"""Pods that are created, changed and deleted at any moment: no operation fails, and nothing of the pods is left."""

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path

import pytest

from podfit.api.registry.kinds import POD
from podfit.api.status import ApiError
from tests.support.cluster.expect import all_become

from .noderuntimes import NodeRuntime
from .seedpods import Lab, container, exactly, needs_cgroups, patch_of, pod, policy, sidecar

pytestmark = [pytest.mark.root, needs_cgroups, pytest.mark.xdist_group("seed-churn")]


async def live(lab: Lab, name: str, rng: random.Random) -> None:
    """One pod's life in steps of milliseconds, so that they meet the agent at every stage of its work."""
    restarting = rng.choice([(), ("memory",), ("cpu", "memory")])
    member = container(
        "c1", exactly("100m/32Mi"), rng.choice(["sleep 1d", "exit 1", "true"]), resizePolicy=policy(*restarting)
    )
    init = (sidecar("side", exactly("50m/32Mi")),) if rng.random() < 0.3 else ()
    await lab.create(pod(name, member, init=init, restartPolicy="Always", nodeName=rng.choice(["n1", ""])))
    for _ in range(rng.randrange(3)):
        await asyncio.sleep(rng.random() * 0.05)
        text = f"{rng.randrange(1, 4) * 100}m/{rng.randrange(1, 4) * 32}Mi"
        await lab.patch(name, patch_of({"c1": exactly(text)}))
    await asyncio.sleep(rng.random() * 0.1)
    grace = rng.choice([0, 0, 1])
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": grace}
    for _ in range(2):
        try:
            await lab.client.delete(POD, "default", name, options)
        except ApiError as error:
            assert error.code == 404


@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_fails_and_nothing_is_left(
    node_runtime: NodeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    rng = random.Random(seed)
    async with Lab(tmp_path, store="sqlite", vpa=False, **node_runtime.options) as lab:
        with caplog.at_level(logging.WARNING, "podfit.agent"):
            await asyncio.gather(*(live(lab, f"p{number}", random.Random(rng.random())) for number in range(40)))
            await all_become(lab.client, POD, "default", lambda pods: not pods)
            # A pod deleted without a grace period is gone from the API while its containers still handle SIGTERM.
            async with asyncio.timeout(60):
                while lab.agent.records:
                    await asyncio.sleep(0.02)
            await lab.agent.idle()
        assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
        assert lab.agent.ledger.uids() == set()
        assert await lab.agent.runtime.pods() == []
