"""Leader election of the autoscaler's components, by their flags, on a clock that the test advances."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.cluster.autoscaling import Autoscaled, autoscaled

from podfit.api.registry.kinds import LEASE
from podfit.client import Client
from podfit.kit.clock import FakeClock
from podfit.vpa.flags import BadFlag
from podfit.vpa.leading import run_elected
from podfit.vpa.recommender.config import recommender_config
from podfit.vpa.updater.config import UpdaterConfig, updater_config

CONFIG = replace(
    updater_config(
        [
            "--leader-elect=true",
            "--leader-elect-resource-name=mine",
            "--leader-elect-resource-namespace=default",
            "--leader-elect-lease-duration=40s",
            "--leader-elect-renew-deadline=30s",
            "--leader-elect-retry-period=5s",
        ]
    ),
    address="",
)


class Candidate:
    def __init__(self, client: Client, clock: FakeClock, config: UpdaterConfig = CONFIG) -> None:
        self.leads = False
        self.task = asyncio.ensure_future(run_elected(client, config, self.work, clock))

    async def work(self) -> None:
        self.leads = True
        try:
            await asyncio.Event().wait()
        finally:
            self.leads = False

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path / "server", FakeClock()) as made:
        yield made


@asynccontextmanager
async def candidates(cluster: Autoscaled, *clients: Client) -> AsyncIterator[list[Candidate]]:
    clock: Any = cluster.clock
    made = [Candidate(client, clock) for client in clients]
    try:
        yield made
    finally:
        for item in made:
            await item.stop()


async def until(cluster: Autoscaled, holds: Callable[[], bool], step: float, limit: float) -> float:
    """Advances the clock until a condition holds; returns how many seconds that took."""
    clock: Any = cluster.clock
    begun = clock.monotonic()
    while not holds():
        assert clock.monotonic() - begun <= limit, "it never came"
        await clock.advance(step)
        await asyncio.sleep(0.005)
    return float(clock.monotonic() - begun)


async def test_one_of_two_leads_and_the_lease_is_as_the_flags_say(cluster: Autoscaled) -> None:
    async with candidates(cluster, cluster.client, cluster.client) as (first, second):
        await until(cluster, lambda: first.leads or second.leads, 1, 10)
        lease = await cluster.admin.get(LEASE, "default", "mine")
        assert lease["spec"]["leaseDurationSeconds"] == 40
        await cluster.clock.advance(100)  # type: ignore[attr-defined]
        assert first.leads != second.leads


async def test_after_a_clean_stop_another_leads_within_a_retry_period(cluster: Autoscaled) -> None:
    async with candidates(cluster, cluster.client) as (first,):
        await until(cluster, lambda: first.leads, 1, 10)
        async with candidates(cluster, cluster.client) as (second,):
            await until(cluster, lambda: first.leads and not second.leads, 1, 10)
            await first.stop()
            assert await until(cluster, lambda: second.leads, 1, 30) <= 11


async def test_a_leader_that_vanished_is_followed_after_the_lease_duration(cluster: Autoscaled) -> None:
    gone = {"holderIdentity": "gone", "leaseDurationSeconds": 40, "leaseTransitions": 3}
    body = {"apiVersion": LEASE.api_version, "kind": "Lease", "metadata": {"name": "mine"}, "spec": gone}
    await cluster.admin.create(LEASE, body, "default")
    async with candidates(cluster, cluster.client) as (one,):
        waited = await until(cluster, lambda: one.leads, 1, 90)
        assert 40 <= waited <= 55
    lease = await cluster.admin.get(LEASE, "default", "mine")
    assert lease["spec"]["leaseTransitions"] == 4


async def test_a_failure_of_the_elected_component_is_raised(cluster: Autoscaled) -> None:
    async def fails() -> None:
        raise OSError("the port is in use")

    clock: Any = cluster.clock
    task = asyncio.ensure_future(run_elected(cluster.client, CONFIG, fails, clock))
    await until(cluster, task.done, 1, 60)
    with pytest.raises(OSError, match="the port is in use"):
        task.result()


async def test_standing_by_is_healthy(cluster: Autoscaled) -> None:
    held = {"holderIdentity": "other", "leaseDurationSeconds": 40}
    body = {"apiVersion": LEASE.api_version, "kind": "Lease", "metadata": {"name": "mine"}, "spec": held}
    await cluster.admin.create(LEASE, body, "default")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    clock: Any = cluster.clock
    waiting = Candidate(cluster.client, clock, replace(CONFIG, address=f"127.0.0.1:{port}"))
    try:
        await clock.advance(1)
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/health-check") as answer:
            assert (answer.status, await answer.text()) == (200, "OK")
        assert not waiting.leads
    finally:
        await waiting.stop()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--leader-elect-lease-duration=10s"], "leaseDuration must be greater than renewDeadline"),
        (["--leader-elect-retry-period=9s"], "renewDeadline must be greater than retryPeriod"),
        (["--leader-elect-resource-lock=endpoints"], "it is leases"),
    ],
)
def test_settings_with_which_two_could_lead_are_refused(flags: list[str], says: str) -> None:
    for read in (recommender_config, updater_config):
        with pytest.raises(BadFlag, match=says):
            read(["--leader-elect", *flags])
        read(flags)
