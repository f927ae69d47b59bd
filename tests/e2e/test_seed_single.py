"""One container, every direction, every resize policy, as in the designs' test plans and upstream's tables.

After each step and its rollback the status is exact and the kernel agrees, on the host and inside the container.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from .noderuntimes import NodeRuntime
from .seedpods import Lab, container, exactly, needs_cgroups, pod, policy, sidecar, sizes

pytestmark = [
    pytest.mark.root,
    needs_cgroups,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("seed-single"),
]

POLICIES: dict[str, tuple[str, ...]] = {
    "no restart": (),
    "mem restart": ("memory",),
    "cpu restart": ("cpu",),
    "cpu & mem restart": ("cpu", "memory"),
}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(node_runtime: NodeRuntime, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    async with Lab(tmp_path_factory.mktemp("single"), scheduler=False, **node_runtime.options) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def cleared(lab: Lab) -> AsyncIterator[None]:
    yield
    await lab.clear()


def policies(word: str) -> dict[str, Any]:
    return {"resizePolicy": policy(*POLICIES[word])}


GUARANTEED = {
    "cpu": "200m/64Mi",
    "mem": "100m/96Mi",
    "cpu & mem in the same direction": "200m/96Mi",
    "cpu & mem in opposite directions": "200m/48Mi",
}


@pytest.mark.parametrize("also_sidecar", [False, True], ids=["", "with sidecar"])
@pytest.mark.parametrize("entry", GUARANTEED)
@pytest.mark.parametrize("word", POLICIES)
async def test_guaranteed_pod(lab: Lab, word: str, entry: str, also_sidecar: bool) -> None:
    after = exactly(GUARANTEED[entry])
    first = container("c1", exactly("100m/64Mi"), **policies(word))
    beside = sidecar("c1-init", exactly("100m/64Mi"), **policies(word))
    changes, init = {"c1": after}, {"c1-init": after} if also_sidecar else {}
    await lab.there_and_back(pod("guaranteed", first, init=(beside,)), changes, init)


BASE = sizes("200m/64Mi", "300m/96Mi")
BURSTABLE = {
    "cpu requests": sizes("250m/64Mi", "300m/96Mi"),
    "mem requests": sizes("200m/80Mi", "300m/96Mi"),
    "cpu & mem requests": sizes("250m/80Mi", "300m/96Mi"),
    "cpu limits": sizes("200m/64Mi", "400m/96Mi"),
    "mem limits": sizes("200m/64Mi", "300m/128Mi"),
    "cpu & mem limits": sizes("200m/64Mi", "400m/128Mi"),
    "cpu requests & limits": sizes("100m/64Mi", "200m/96Mi"),
    "mem requests & limits": sizes("200m/48Mi", "300m/80Mi"),
    "all": sizes("250m/80Mi", "400m/128Mi"),
    "cpu up, mem down": sizes("250m/48Mi", "400m/80Mi"),
    "cpu down, mem up": sizes("100m/80Mi", "200m/128Mi"),
    "cpu requests up, limits down": sizes("220m/64Mi", "250m/96Mi"),
    "cpu requests down, limits up": sizes("100m/64Mi", "400m/96Mi"),
    "mem requests up, limits down": sizes("200m/72Mi", "300m/80Mi"),
    "mem requests down, limits up": sizes("200m/48Mi", "300m/128Mi"),
    "requests up, limits down": sizes("220m/72Mi", "250m/80Mi"),
    "requests down, limits up": sizes("100m/48Mi", "400m/128Mi"),
}


RESTARTED = (
    "cpu requests",
    "mem requests",
    "cpu limits",
    "mem limits",
    "all",
    "cpu up, mem down",
    "requests up, limits down",
)


@pytest.mark.parametrize(
    ("word", "entry"),
    [(word, entry) for word in POLICIES for entry in (RESTARTED if POLICIES[word] else BURSTABLE)],
)
async def test_burstable_pod(lab: Lab, word: str, entry: str) -> None:
    await lab.there_and_back(pod("burstable", container("c1", BASE, **policies(word))), {"c1": BURSTABLE[entry]})


PARTIAL = {
    "cpu only: requests": (sizes("100m", "300m"), sizes("200m", "300m")),
    "cpu only: limits": (sizes("100m", "300m"), sizes("100m", "200m")),
    "cpu only: both": (sizes("100m", "300m"), sizes("200m", "400m")),
    "cpu only: no limit": (sizes("100m"), sizes("200m")),
    "mem only: requests": (sizes("/32Mi", "/64Mi"), sizes("/48Mi", "/64Mi")),
    "mem only: limits": (sizes("/32Mi", "/64Mi"), sizes("/32Mi", "/96Mi")),
    "mem only: both": (sizes("/32Mi", "/64Mi"), sizes("/48Mi", "/96Mi")),
    "mem only: no limit": (sizes("/32Mi"), sizes("/64Mi")),
}


@pytest.mark.parametrize("entry", PARTIAL)
async def test_burstable_pod_with_one_resource(lab: Lab, entry: str) -> None:
    before, after = PARTIAL[entry]
    await lab.there_and_back(pod("partial", container("c1", before)), {"c1": after})
