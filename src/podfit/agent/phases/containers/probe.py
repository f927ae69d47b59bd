"""Probes running containers, and applies the power state requested for virtual machines."""

from __future__ import annotations

from podfit.agent.phases.context import PodContext
from podfit.agent.phases.outcome import Outcome
from podfit.reconcile.result import DONE


async def probe(pod: PodContext) -> Outcome:
    containers = pod.parts.containers
    containers.power.follow(pod.record, pod.snapshot)
    containers.probing.follow(pod.record, pod.snapshot)
    return DONE
