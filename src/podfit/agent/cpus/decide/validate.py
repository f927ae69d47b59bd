"""Checks whether a state from disk is possible on this machine."""

from __future__ import annotations

from podfit.agent.cpus.decide.sets import NO_CPUS, Cpus, text
from podfit.agent.cpus.decide.state import CpuState


def contradiction(state: CpuState, all_cpus: Cpus, reserved: Cpus) -> str:
    """Returns the contradiction; "" if there is none."""
    if not reserved <= state.shared:
        return f'not all reserved cpus: "{text(reserved)}" are present in defaultCpuSet: "{text(state.shared)}"'
    for uid, containers in state.assigned.items():
        for name, cpus in containers.items():
            if cpus & state.shared:
                return (
                    f'pod: {uid}, container: {name} cpuset: "{text(cpus)}" overlaps with default cpuset '
                    f'"{text(state.shared)}"'
                )
    pods = {uid: NO_CPUS.union(*containers.values()) for uid, containers in state.assigned.items()}
    known = state.shared.union(*pods.values())
    if known != all_cpus:
        return f'current set of available CPUs "{text(all_cpus)}" doesn\'t match with CPUs in state "{text(known)}"'
    if sum(map(len, pods.values())) + len(state.shared) != len(known):
        return "two pods are assigned the same CPUs"
    return ""
