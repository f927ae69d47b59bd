"""Containers that repeatedly run out of memory on running clusters: every kill is counted exactly once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.expect import all_become
from tests.support.cluster.whole import Whole, pod_spec, workload

from podfit.agent.pods import record as records
from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import POD, VPA, kind_named
from podfit.vpa.recommender.loop import Recommender

DEPLOYMENT = kind_named("Deployment")
FLAGS = {"recommender": ["--recommender-interval=200ms"], "updater": ["--updater-interval=200ms"]}
GREEDY = "x=0123456789; while :; do x=$x$x; done"
KILLS = 5
RUNTIMES = [
    "fake",
    pytest.param("process", marks=[pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]),
]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash loop in seconds: its first back-off is 0.3 s instead of 10 s, the later ones in proportion."""
    monkeypatch.setattr(records, "_BACKOFF_FIRST_S", 0.3)


def greedy() -> Any:
    """A pod whose container immediately uses more than its 40Mi, on both runtimes."""
    pod = pod_spec("100m", "40Mi")
    pod["containers"][0]["command"] = ["/bin/sh", "-c", GREEDY]
    pod["containers"][0]["resources"]["limits"] = {"memory": "40Mi"}
    return pod


async def loop_of(whole: Whole, mode: str = "Off") -> None:
    made = workload("Deployment", "web", 1, pod=greedy())
    made["spec"]["template"]["metadata"]["annotations"] = {"podfit.dev/fake-memory": "ramp:10Mi..200Mi:1"}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"targetRef": reference, "updatePolicy": {"updateMode": mode, "minReplicas": 1}}
    vpa = {"apiVersion": VPA.api_version, "kind": VPA.kind, "metadata": {"name": "web"}, "spec": spec}
    await whole.client.create(VPA, vpa, "default")
    await whole.client.create(DEPLOYMENT, made)


def recommender_of(whole: Whole) -> Recommender:
    assert whole.up.autoscaler is not None
    return whole.up.autoscaler.recommender


def counted(whole: Whole) -> int:
    found = recommender_of(whole).registry.get_sample_value("vpa_recommender_oom_events_total", {"outcome": "counted"})
    return int(found or 0)


def on_node(whole: Whole) -> int:
    """The number of kills that the node has counted."""
    return sum(sum(record.ooms.values()) for agent in whole.up.agents for record in agent.records.values())


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.02)


async def passes(whole: Whole, number: int = 3) -> None:
    recommender = recommender_of(whole)
    seen = recommender.passes
    await until(lambda: recommender.passes >= seen + number)


def waits_after(pods: list[Any], kills: int) -> bool:
    """Whether the container waits in CrashLoopBackOff after so many kills."""
    statuses = [status for pod in pods for status in (pod.get("status") or {}).get("containerStatuses") or ()]
    return bool(statuses) and any(
        (status["state"].get("waiting") or {}).get("reason") == "CrashLoopBackOff"
        and status["restartCount"] >= kills - 1
        and status["lastState"]["terminated"]["reason"] == "OOMKilled"
        for status in statuses
    )


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_every_kill_of_a_crash_loop_is_counted_once(tmp_path: Path, runtime: str) -> None:
    async with Whole(tmp_path, runtime=runtime, stop_pods=True, vpa=True, vpa_flags=FLAGS) as whole:
        await loop_of(whole)
        await all_become(whole.client, POD, "default", lambda pods: waits_after(pods, KILLS), labelSelector="app=web")
        known = on_node(whole)
        await until(lambda: counted(whole) >= known)
        await passes(whole)
        assert KILLS <= known <= counted(whole) <= on_node(whole)


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_kills_that_no_status_showed_are_counted_from_the_node(tmp_path: Path, runtime: str) -> None:
    """The recommender sees one state of the pod, and no change of it: only its node reports the kills."""
    async with Whole(
        tmp_path, runtime=runtime, stop_pods=True, vpa=True, vpa_flags=FLAGS, meter_resolution_s=1.0
    ) as whole:
        feed = recommender_of(whole).feed
        look, looks = feed._note_kills, list[Any]()

        def first_look(before: Any, after: Any) -> None:
            if before is None:
                look(before, after)
            looks.append(after)

        feed._note_kills = first_look  # type: ignore[method-assign]
        await loop_of(whole)
        await until(lambda: on_node(whole) >= 3)
        known = on_node(whole)
        await until(lambda: counted(whole) >= known)
        await passes(whole)
        assert len(looks) > 1 and counted(whole) <= on_node(whole)


async def test_a_crash_loop_ends_when_the_memory_raised_by_kills_suffices(tmp_path: Path) -> None:
    async with Whole(tmp_path, vpa=True, vpa_flags=FLAGS) as whole:
        await loop_of(whole, "InPlaceOrRecreate")

        def cured(pods: list[Any]) -> bool:
            limits = [pod["spec"]["containers"][0]["resources"]["limits"]["memory"] for pod in pods]
            running = [
                status["state"].get("running") is not None
                for pod in pods
                for status in (pod.get("status") or {}).get("containerStatuses") or ()
            ]
            return bool(running) and all(running) and all(Quantity.parse(limit).value > 200 * 2**20 for limit in limits)

        await all_become(whole.client, POD, "default", cured, labelSelector="app=web")
        await until(lambda: counted(whole) >= on_node(whole))
        await passes(whole)
        assert counted(whole) == on_node(whole) > 0
