"""Memory that is in use, containers that ran out of it, and containers that keep crashing."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from podfit.api.objects import Object

from .noderuntimes import NodeRuntime
from .seedpods import (
    RESIZE,
    WAITS,
    Kernel,
    Lab,
    conditions,
    container,
    exactly,
    is_ready,
    is_settled,
    needs_cgroups,
    patch_of,
    pod,
    sizes,
    statuses,
)

pytestmark = [
    pytest.mark.root,
    needs_cgroups,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("seed-memory"),
]

BELOW = re.compile(r"memory limit \(\d+\) below current usage")
HOLDS = """
import signal
held = [bytearray(64 << 20)]
signal.signal(signal.SIGUSR1, lambda *_: held.clear())
signal.signal(signal.SIGTERM, lambda *_: exit(0))
open("/held/now", "w").close()
while True:
    signal.pause()
"""
WANTS_MUCH = (
    "x = bytearray(100 << 20); import signal; signal.signal(signal.SIGTERM, lambda *_: exit(0)); signal.pause()"
)
LIMIT = "/sys/fs/cgroup/memory/memory.limit_in_bytes"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(node_runtime: NodeRuntime, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    async with Lab(tmp_path_factory.mktemp("memory"), scheduler=False, **node_runtime.options) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def cleared(lab: Lab) -> AsyncIterator[None]:
    yield
    await lab.clear()


PROGRAMS = {"name": "usr", "hostPath": {"path": "/usr"}}
"""Mounts the host's Python, which images lack."""


def program(text: str, resources: Object) -> Object:
    mounts = [{"name": "usr", "mountPath": "/usr", "readOnly": True}]
    return {**container("c1", resources, volumeMounts=mounts), "command": ["python3", "-c", text]}


def refused(seen: Object | None) -> bool:
    assert seen is not None
    shown = conditions(seen, *RESIZE)
    assert "PodResizePending" not in shown
    progress = shown.get("PodResizeInProgress") or {}
    return progress.get("reason") == "Error" and bool(BELOW.search(progress["message"]))


ROOMY, TIGHT = sizes("100m/32Mi", "1/256Mi"), sizes("100m/32Mi", "1/40Mi")


async def holding(lab: Lab, whole: Object | None = None) -> Object:
    """A pod that uses 64 MiB, releases them on SIGUSR1, and is resized to less than that."""
    member = program(HOLDS, {} if whole else ROOMY)
    member["volumeMounts"].append({"name": "held", "mountPath": "/held"})
    body = pod("p", member, volumes=[PROGRAMS, {"name": "held", "emptyDir": {}}])
    if whole:
        body["spec"]["resources"] = whole
    seen = await lab.run(body)
    await lab.shell(seen, "c1", "until [ -e /held/now ]; do sleep 0.01; done")
    smaller = patch_of({}, whole=TIGHT) if whole else patch_of({"c1": TIGHT})
    await lab.patch("p", smaller)
    now = await lab.until("p", refused)
    assert lab.host(now, "c1").memory == 256 << 20
    assert statuses(now)["c1"]["containerID"] == statuses(seen)["c1"]["containerID"]
    return now


async def test_memory_in_use_is_taken_when_it_is_released(lab: Lab) -> None:
    seen = await holding(lab)
    assert statuses(seen)["c1"]["resources"]["limits"]["memory"] == "256Mi"
    await lab.shell(seen, "c1", "kill -USR1 1")
    await lab.verify(await lab.settled("p"))


async def test_a_resize_that_memory_forbids_can_be_taken_back(lab: Lab) -> None:
    await holding(lab)
    await lab.patch("p", patch_of({"c1": ROOMY}))
    await lab.verify(await lab.settled("p"))


async def test_memory_in_use_of_a_pod_as_a_whole_is_taken_when_it_is_released(lab: Lab) -> None:
    seen = await holding(lab, whole=ROOMY)
    await lab.shell(seen, "c1", "kill -USR1 1")
    await lab.verify(await lab.settled("p"))


async def test_a_limit_that_nothing_fits_in_is_refused_and_the_next_one_taken(lab: Lab) -> None:
    first = await lab.run(pod("p", container("c1", exactly("100m/35Mi"))))
    await lab.patch("p", patch_of({"c1": exactly("100m/30Mi")}))
    await lab.verify(await lab.settled("p"))
    await lab.patch("p", patch_of({"c1": exactly("100m/10Ki")}))
    seen = await lab.until("p", refused)
    assert lab.host(seen, "c1").memory == 30 << 20
    await lab.patch("p", patch_of({"c1": exactly("100m/35Mi")}))
    last = await lab.settled("p")
    await lab.verify(last)
    assert statuses(last)["c1"]["containerID"] == statuses(first)["c1"]["containerID"]


# --- out of memory, and other crashes -------------------------------------------------------------------------------


def died(reason: str, code: int, count: int) -> object:
    def so(seen: Object | None) -> bool:
        shown = statuses(seen).get("c1") if seen is not None else None
        if shown is None or shown["restartCount"] < count:
            return False
        ends = [shown.get(key, {}).get("terminated") for key in ("state", "lastState")]
        return any(end is not None and (end["reason"], end["exitCode"]) == (reason, code) for end in ends)

    return so


def waits_to_restart(seen: Object | None) -> bool:
    shown = statuses(seen).get("c1", {}) if seen is not None else {}
    return bool(shown.get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff")


async def test_an_out_of_memory_kill_is_reported_and_fixed_by_a_resize(lab: Lab) -> None:
    await lab.create(pod("p", program(WANTS_MUCH, exactly("500m/64Mi")), restartPolicy="Always", volumes=[PROGRAMS]))
    await lab.until("p", died("OOMKilled", 137, 1))
    crashed = await lab.until("p", waits_to_restart)
    await lab.patch("p", patch_of({"c1": exactly("500m/256Mi")}))
    seen = await lab.until("p", is_settled)
    # Fixed at once: a new size does not wait for the old size's back-off.
    assert statuses(seen)["c1"]["restartCount"] == statuses(crashed)["c1"]["restartCount"] + 1
    assert lab.host(seen, "c1") == Kernel.for_container(exactly("500m/256Mi"), {})
    assert lab.host(seen) == Kernel.for_pod(seen["spec"])


async def test_out_of_memory_ends_a_pod_that_does_not_restart(lab: Lab) -> None:
    await lab.create(pod("p", program(WANTS_MUCH, exactly("500m/64Mi")), restartPolicy="Never", volumes=[PROGRAMS]))
    seen = await lab.until("p", died("OOMKilled", 137, 0))
    assert (await lab.until("p", lambda obj: obj["status"]["phase"] == "Failed"))["metadata"] and seen


async def test_a_container_that_keeps_crashing_is_resized(lab: Lab) -> None:
    """A container that does not run has no size; its next start has the new one."""
    crashes = f"[ $(cat {LIMIT}) -gt 100000000 ] || exit 3; {WAITS}"
    body = pod("p", container("c1", exactly("100m/64Mi"), crashes), container("c2", exactly("50m/32Mi")))
    await lab.create({**body, "spec": {**body["spec"], "restartPolicy": "Always"}})
    await lab.until("p", waits_to_restart)
    await lab.patch("p", patch_of({"c1": exactly("100m/80Mi")}))

    def shown(seen: Object | None) -> bool:
        assert seen is not None
        same = statuses(seen)["c1"]["resources"] == exactly("100m/80Mi")
        return same and not conditions(seen, *RESIZE) and waits_to_restart(seen)

    seen = await lab.until("p", shown)
    assert lab.host(seen) == Kernel.for_pod(seen["spec"])
    await lab.patch("p", patch_of({"c1": exactly("100m/128Mi")}))
    await lab.until("p", is_settled)
    seen = await lab.until("p", is_ready)
    assert lab.host(seen, "c1") == Kernel.for_container(exactly("100m/128Mi"), {})
