"""Builds controllers and a scheduler that run as separate processes, against any API server."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from podfit.client import Client
from podfit.compose.parts import (
    make_blocks,
    make_controller_context,
)
from podfit.kit.clock import Clock, RealClock

if TYPE_CHECKING:
    # Components are imported when they are built: an API server alone then needs half the time and memory to start.
    from podfit.client.kubeconfig import Access
    from podfit.controllers.nodes.blocks import PodRanges
    from podfit.scheduler import SchedulerConfig

Signer = Callable[[bytes, Sequence[str], int | None], bytes]


def identity() -> str:
    return f"{socket.gethostname()}_{os.getpid()}"


async def as_leader(client: Client, name: str, work: Callable[[], Awaitable[None]], elect: bool, clock: Clock) -> None:
    """Runs `work` until it ends, then closes the client. With `elect`, it runs only while this process holds the Lease
    `name`."""
    from podfit.reconcile.lease import Leadership

    try:
        if not elect:
            await work()
            return
        leadership = Leadership(client, name, identity(), clock=clock)
        try:
            await leadership.lead(work)
        finally:
            await leadership.release()
    finally:
        await client.close()


async def controllers_alone(
    access: Access,
    elect: bool,
    signer: Signer | None = None,
    root_ca: bytes = b"",
    ranges: PodRanges | None = None,
    by_accounts: bool = True,
) -> None:
    """Runs the controllers. `root_ca` is published in every namespace as kube-root-ca.crt; the default is the CA of
    `access`. With `by_accounts` each controller writes with its own service account."""
    from podfit.client.accounts import Accounts
    from podfit.controllers.all import run_controllers

    clock, client = RealClock(), Client(access.transport("podfit-controllers"))
    accounts = Accounts(access, client, "podfit-controllers", clock) if by_accounts else None

    async def work() -> None:
        client_of = accounts.client if accounts is not None else None
        context = make_controller_context(client, clock, root_ca or access.ca or b"", client_of)
        context.sign_request = signer
        context.pod_blocks = make_blocks(ranges)
        await run_controllers(context)

    try:
        await as_leader(client, "kube-controller-manager", work, elect, clock)
    finally:
        if accounts is not None:
            await accounts.close()


async def scheduler_alone(access: Access, elect: bool, config: SchedulerConfig) -> None:
    from podfit.scheduler import Scheduler

    clock, client = RealClock(), Client(access.transport("podfit-scheduler"))
    await as_leader(client, "kube-scheduler", Scheduler(client, config, clock).run, elect, clock)
