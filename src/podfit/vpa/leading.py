"""Runs a component of the autoscaler only while it is the leader, by upstream's `--leader-elect-*` flags.

Standby replicas also serve their health endpoint, because they are alive and must not be restarted.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Awaitable, Callable
from typing import Protocol

from prometheus_client import CollectorRegistry

from podfit.client import Client
from podfit.kit.clock import Clock
from podfit.reconcile.lease import Leadership
from podfit.vpa.flags import BadFlag
from podfit.vpa.serve.http import Health, HttpServer

JITTER = 1.2
"""Attempts may be this much later than scheduled; a deadline must leave room for one."""


class Election(Protocol):
    """The leader election settings that the recommender and the updater share."""

    @property
    def address(self) -> str: ...
    @property
    def leader_elect(self) -> bool: ...
    @property
    def leader_elect_lease_duration(self) -> float: ...
    @property
    def leader_elect_renew_deadline(self) -> float: ...
    @property
    def leader_elect_retry_period(self) -> float: ...
    @property
    def leader_elect_resource_lock(self) -> str: ...
    @property
    def leader_elect_resource_name(self) -> str: ...
    @property
    def leader_elect_resource_namespace(self) -> str: ...


def check_election(config: Election) -> None:
    """Raises BadFlag for settings that would allow two leaders at once."""
    if not config.leader_elect:
        return
    if config.leader_elect_resource_lock != "leases":
        lock = config.leader_elect_resource_lock
        raise BadFlag(f'invalid argument "{lock}" for "--leader-elect-resource-lock" flag: it is leases')
    if config.leader_elect_lease_duration <= config.leader_elect_renew_deadline:
        raise BadFlag("leaseDuration must be greater than renewDeadline")
    if config.leader_elect_renew_deadline <= JITTER * config.leader_elect_retry_period:
        raise BadFlag("renewDeadline must be greater than retryPeriod*JitterFactor")
    if config.leader_elect_lease_duration < 1:
        raise BadFlag("leaseDuration must be greater than zero")
    if config.leader_elect_retry_period <= 0:
        raise BadFlag("retryPeriod must be greater than zero")


async def run_elected(client: Client, config: Election, work: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Runs `work` until cancelled: at once without leader election, otherwise whenever this process holds the Lease."""
    if not config.leader_elect:
        await work()
        return
    leadership = Leadership(
        client,
        config.leader_elect_resource_name,
        f"{socket.gethostname()}_{uuid.uuid4()}",
        namespace=config.leader_elect_resource_namespace,
        duration_s=config.leader_elect_lease_duration,
        renew_s=config.leader_elect_renew_deadline,
        retry_s=config.leader_elect_retry_period,
        clock=clock,
    )
    standby = HttpServer(config.address, CollectorRegistry(), Health(clock, float("inf")))

    async def lead() -> None:
        await standby.stop()
        try:
            await work()
        finally:
            await standby.start()

    await standby.start()
    try:
        await leadership.lead(lead)
    finally:
        await standby.stop()
        await leadership.release()
