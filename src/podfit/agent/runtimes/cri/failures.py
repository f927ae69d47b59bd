"""What a runtime's refusals mean to the agent."""

from __future__ import annotations

from podfit.agent.runtimes.values import NotFound, RuntimeFailure
from podfit.cri import CriError
from podfit.cri import api_pb2 as api


class Unreached(RuntimeFailure):
    """The runtime is away or did not answer in time. What was asked may have been done."""


_NOT_READY = {"RuntimeReady": "container runtime not ready", "NetworkReady": "container runtime network not ready"}


def not_ready(status: api.RuntimeStatus) -> str:
    """What keeps a runtime that answers from running pods, in the kubelet's words; "" if nothing does."""
    return ", ".join(
        f"{_NOT_READY[condition.type]}: {condition.type}=false reason:{condition.reason} message:{condition.message}"
        for condition in status.conditions
        if condition.type in _NOT_READY and not condition.status
    )


def failure(error: CriError) -> RuntimeFailure:
    if error.unreached:
        return Unreached(f"container runtime is down: {error.words}")
    return NotFound(error.details) if error.code == "NOT_FOUND" else RuntimeFailure(error.words)
