"""Translates the runtime's errors for the agent."""

from __future__ import annotations

from podfit.agent.runtimes.values import NotFound, RuntimeFailure, RuntimeSilent
from podfit.cri import CriError
from podfit.cri import api_pb2 as api

_NOT_READY = {"RuntimeReady": "container runtime not ready", "NetworkReady": "container runtime network not ready"}


def not_ready(status: api.RuntimeStatus) -> str:
    """The reason why a runtime that answers cannot run pods, in the kubelet's words; "" if it can."""
    return ", ".join(
        f"{_NOT_READY[condition.type]}: {condition.type}=false reason:{condition.reason} message:{condition.message}"
        for condition in status.conditions
        if condition.type in _NOT_READY and not condition.status
    )


def failure(error: CriError) -> RuntimeFailure:
    if error.unreached:
        return RuntimeSilent(f"container runtime is down: {error.words}")
    return NotFound(error.details) if error.code == "NOT_FOUND" else RuntimeFailure(error.words)
