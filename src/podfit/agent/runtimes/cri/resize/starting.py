"""Keeps a container's start from using up its pod's CPU quota.

The runtime starts a container with a program of its own inside the pod's cgroup. With a small quota, the kernel would
throttle that program most of the time, and a start that takes 150 ms would take half a second. The pod's containers are
still limited: the runtime sets their own quotas before their first instruction.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from podfit.agent.runtimes.cri.resize.quotas import write_pod
from podfit.agent.runtimes.cri.state.inventory import Inventory
from podfit.agent.runtimes.cri.state.records import Container, Pod
from podfit.agent.runtimes.values import RUNNING, UNLIMITED, LimitsChange, RuntimeFailure

log = logging.getLogger(__name__)


@asynccontextmanager
async def without_pod_quota(inventory: Inventory, pod: Pod | None, starting: Container) -> AsyncIterator[None]:
    """Removes the quota for as long as the containers' own quotas keep them within it."""
    quota_us = _liftable(inventory, pod, starting) if pod is not None else None
    if pod is None or quota_us is None or inventory.cgroups is None:
        yield
        return
    inventory.cgroups.write(pod.group, LimitsChange(cpu_quota_us=UNLIMITED))
    try:
        yield
    finally:
        try:
            await write_pod(inventory.cgroups, pod.group, LimitsChange(cpu_quota_us=quota_us))
        except RuntimeFailure as error:
            log.warning("pod %s: its CPU quota cannot be set again: %s", pod.config.uid, error)


def _liftable(inventory: Inventory, pod: Pod, starting: Container) -> int | None:
    """The pod's quota; None if it has none, or if its containers could exceed it without it."""
    if inventory.cgroups is None:
        return None
    running = [container for container in pod.containers.values() if container.state.state == RUNNING]
    if any(not container.group for container in running):
        return None
    try:
        quota_us = inventory.cgroups.limits(pod.group).cpu_quota_us
        own = [
            starting.kept.limits.cpu_quota_us,
            *(inventory.cgroups.limits(container.group).cpu_quota_us for container in running),
        ]
    except RuntimeFailure:
        return None
    if quota_us is None or None in own or sum(quota or 0 for quota in own) > quota_us:
        return None
    return quota_us
