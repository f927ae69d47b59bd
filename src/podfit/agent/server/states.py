"""Renders the four states of a pod's size side by side, as text: desired, allocated, actuated, actual."""

from __future__ import annotations

from typing import Any

from podfit.agent.agent import Agent
from podfit.agent.decide.resize.kernel import cpu_text, memory_text, milli_of_quota, milli_of_shares
from podfit.agent.decide.resize.machines import machines_of
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import RUNNING, Limits, NotFound, PodState
from podfit.api.resize.states import Actual


async def four_states(agent: Agent, record: PodRecord) -> dict[str, Any]:
    desired = record.desired
    allocated, actuated = agent.ledger.allocated(record.uid), agent.ledger.actuated(record.uid)
    state = await agent.runtime.pod(record.uid)
    actual, machines = await _actual(agent, state), machines_of(state)
    containers = []
    for name, wanted in desired.containers.items():
        row: dict[str, Any] = {"name": name, "desired": wanted}
        row["allocated"] = allocated.containers.get(name) if allocated is not None else None
        row["actuated"] = actuated.containers.get(name)
        row["actual"] = actual.containers.get(name)
        if name in machines:
            row["offlineVcpus"] = machines[name].offline_vcpus
        containers.append(row)
    whole: dict[str, Any] = {
        "desired": desired.pod,
        "allocated": allocated.pod if allocated is not None else None,
        "actuated": actuated.pod,
        "actual": actual.pod,
    }
    return {
        "namespace": record.namespace,
        "name": record.name,
        "uid": record.uid,
        "generation": record.generation,
        "qosClass": record.qos,
        "durable": agent.ledger.is_durable(record.uid),
        "pod": whole,
        "containers": containers,
    }


async def _actual(agent: Agent, state: PodState | None) -> Actual:
    """The actual sizes, without containers that do not run."""
    if state is None:
        return Actual()
    running = {
        container.name: await _container(agent, container.id)
        for container in state.containers
        if container.state == RUNNING
    }
    known = {name: sizes for name, sizes in running.items() if sizes is not None}
    return Actual(known, await _pod(agent, state.config.uid) if state.alive else None)


async def _container(agent: Agent, container_id: str) -> dict[str, Any] | None:
    try:
        return shown(await agent.runtime.container_limits(container_id))
    except (NotFound, OSError):
        return None


async def _pod(agent: Agent, uid: str) -> dict[str, Any] | None:
    try:
        return shown(await agent.runtime.pod_limits(uid))
    except (NotFound, OSError):
        return None


def shown(limits: Limits) -> dict[str, Any]:
    """The kernel's values, in the API's units and in the kernel's."""
    upper: dict[str, str] = {}
    if limits.cpu_quota_us is not None:
        upper["cpu"] = cpu_text(milli_of_quota(limits.cpu_quota_us, limits.cpu_period_us))
    if limits.memory_bytes is not None:
        upper["memory"] = memory_text(limits.memory_bytes)
    lower = {"cpu": cpu_text(milli_of_shares(limits.cpu_shares))} if limits.cpu_shares is not None else {}
    kernel = {
        "cpuShares": limits.cpu_shares,
        "cpuQuotaUs": limits.cpu_quota_us,
        "cpuPeriodUs": limits.cpu_period_us,
        "memoryBytes": limits.memory_bytes,
    }
    return {"requests": lower, "limits": upper, "kernel": kernel}
