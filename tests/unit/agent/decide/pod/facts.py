"""Facts of a pod with one container, from which statuses are built."""

from __future__ import annotations

from typing import Any

from podfit.agent.decide.pod.lifecycle import Seen
from podfit.agent.decide.pod.status import Facts
from podfit.agent.decide.resize.conditions import ResizeConditions
from podfit.agent.decide.resize.sized import Sized
from podfit.agent.runtimes.values import RUNNING, ContainerState
from podfit.api.objects import Object
from podfit.api.resize.states import Actuated, Allocated, desired_of

SIZE = {"requests": {"cpu": "100m"}}
RUNS = Seen("c", ContainerState("id", "c", 0, RUNNING, "image", "sha256:1", 1.0, 2.0), started=True, ready=True)


def pod(generation: int = 1, size: Object = SIZE, **spec: Any) -> Object:
    container = {"name": "c", "image": "image", "resources": size}
    return {"metadata": {"name": "p", "generation": generation}, "spec": {"containers": [container], **spec}}


def facts(of: Object | None = None, seen: Seen = RUNS, **more: Any) -> Facts:
    of = of or pod()
    allocated = Allocated({"c": SIZE})
    given: dict[str, Any] = {
        "qos": "Burstable",
        "desired": desired_of(of),
        "allocated": allocated,
        "sized": Sized(of, allocated),
        "actuated": Actuated({"c": SIZE}),
        "seen": {"c": seen},
        "resize": ResizeConditions(),
        "phase": "Running",
        "sandbox": True,
        "initialized": True,
        "now": 10.0,
        "start_time": "t",
        "host_ip": "10.0.0.1",
        "runtime": "fake",
    }
    return Facts(of, **{**given, **more})
