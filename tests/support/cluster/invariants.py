"""Invariants of a node. Each function yields the violations of one; `expect_node_is_sound` asserts that there are
none."""

from __future__ import annotations

from collections.abc import Iterator

from podfit.agent.agent import Agent
from podfit.agent.runtimes.fake.node import FakeNodeState
from podfit.agent.runtimes.values import RUNNING
from podfit.api.quantity import ZERO


def accounts_add_up(agent: Agent) -> Iterator[str]:
    """The resources counted as used are the sum of those held by admitted pods."""
    holders = [record for record in agent.records.values() if record.admitted and record.holds]
    room = agent.allocations.room("")
    if room.pods != len(holders):
        yield f"{room.pods} pods counted of {len(holders)}"
    for name, used in room.used.items():
        held = sum(record.used[name].nanos for record in holders if name in record.used)
        if used.nanos != held:
            yield f"{used} of {name} counted, {held} nano held"


def allocations_fit(agent: Agent) -> Iterator[str]:
    """Allocations of the node never exceed its allocatable resources. Not checked with pods that were already running
    when the agent started: they keep their allocations even if the node has shrunk."""
    if any(record.adopted for record in agent.records.values()):
        return
    totals: dict[str, int] = {}
    for record in agent.records.values():
        allocated = agent.ledger.allocated(record.uid)
        if allocated is not None and record.holds:
            for name, amount in record.sized(allocated).requests.items():
                totals[name] = totals.get(name, 0) + amount.nanos
    for name, total in totals.items():
        if total > agent.node.allocatable.get(name, ZERO).nanos:
            yield f"{total} nano {name} allocated of {agent.node.allocatable.get(name, ZERO)}"


def children_fit(machine: FakeNodeState) -> Iterator[str]:
    """The sum of the limits of running containers never exceeds those of their pod, after any step of an actuation.

    Applies to pods without pod-level resources and without limits below the kernel's minimum quota.
    """
    for name, limit, children in _limits(machine):
        if sum(children) > limit:
            yield f"{name}: {children} above {limit}"


def no_child_exceeds_its_pod(machine: FakeNodeState) -> Iterator[str]:
    """No container's limit exceeds that of its pod: the kernel rejects such a quota."""
    for name, limit, children in _limits(machine):
        if max(children, default=0) > limit:
            yield f"{name}: {children} above {limit}"


def _limits(machine: FakeNodeState) -> Iterator[tuple[str, int, list[int]]]:
    for pod in machine.pods.values():
        running = [container for container in pod.containers.values() if container.state == RUNNING]
        for name in ("cpu_quota_us", "memory_bytes"):
            limit, children = getattr(pod.limits, name), [getattr(container.limits, name) for container in running]
            if limit is not None and None not in children:
                yield name, limit, children


def expect_node_is_sound(agent: Agent, machine: FakeNodeState) -> None:
    """Checked after every step of every simulated node."""
    wrong = [*accounts_add_up(agent), *allocations_fit(agent), *no_child_exceeds_its_pod(machine)]
    assert wrong == [], f"node {agent.config.node_name}: {wrong}"
