"""Composes the error message for a limit that could not be set: its owner, the value, and the kernel's error. Pure."""

from __future__ import annotations

from podfit.agent.decide.resize.actuate import SetContainer, Step
from podfit.agent.runtimes.values import UNLIMITED, LimitsChange, RuntimeFailure, WriteRefused
from podfit.api.quantity import BINARY_SI, Quantity
from podfit.api.resize.states import MEMORY

_PERIOD_US = 100_000


def refusal(step: Step, error: RuntimeFailure) -> str:
    """For example `cannot set memory limit of container "app" to 64Mi: Invalid argument (memory.max)`."""
    why = error.why if isinstance(error, WriteRefused) else str(error)
    whose = f'container "{step.name}"' if isinstance(step, SetContainer) else "pod"
    if step.resource == MEMORY:
        what = f"memory limit of {whose}"
    else:
        what = f"CPU of {whose}"
    change = getattr(step, "change", None)
    value = _value(step.resource, change) if change is not None else ""
    return f"cannot set {what} to {value}: {why}" if value else f"cannot set {what}: {why}"


def _value(resource: str, change: LimitsChange) -> str:
    if resource == MEMORY:
        return "" if change.memory_bytes is None else _memory(change.memory_bytes)
    parts = []
    if change.cpu_quota_us is not None:
        parts.append(f"a limit of {_cpu(change.cpu_quota_us)}")
    if change.cpu_shares is not None:
        parts.append(f"{change.cpu_shares} shares")
    return " and ".join(parts)


def _memory(count: int) -> str:
    return "no limit" if count == UNLIMITED else str(Quantity.of_units(count, BINARY_SI))


def _cpu(quota_us: int) -> str:
    return "none" if quota_us == UNLIMITED else str(Quantity.of_milli(quota_us * 1000 // _PERIOD_US))
