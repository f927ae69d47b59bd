"""Decides which containers of a pod have to be started now, and when the pod is over. Pure, without a clock: delays are
parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from podfit.agent.runtimes.values import CREATED, EXITED, RUNNING, ContainerState
from podfit.api.objects import Object
from podfit.api.pods.machines import ends_when_shut_down
from podfit.api.pods.resources import is_sidecar


class Seen(Struct, frozen=True):
    """The known state of one container of the spec."""

    name: str
    last: ContainerState | None = None
    """The newest attempt."""
    previous: ContainerState | None = None
    """The previous attempt, if it still exists."""
    started: bool = False
    """Whether the container is running and its startup probe (if any) has succeeded."""
    ready: bool = False
    conflict: str = ""
    """The reason why the container is not ready although it runs and its probes succeed."""
    waiting: tuple[str, str] | None = None
    """The reason and message if the container could not be started."""

    @property
    def running(self) -> bool:
        return self.last is not None and self.last.state == RUNNING

    @property
    def exited(self) -> bool:
        return self.last is not None and self.last.state == EXITED

    @property
    def created_only(self) -> bool:
        return self.last is not None and self.last.state == CREATED


class Next(Struct, frozen=True):
    start: tuple[str, ...] = ()
    """Containers to be created and started now, in this order. Ephemeral containers do not wait for the pod's
    initialization."""
    later: tuple[tuple[str, float], ...] = ()
    """(name, seconds): containers that crashed, to be started after this delay."""
    stop: tuple[str, ...] = ()
    """Sidecars of a pod whose work is done."""
    over: bool = False
    """No container will run again."""
    initialized: bool = False


Delay = Callable[[Seen], float]
"""The seconds until an exited container may be started again; 0: now."""


def next_steps(pod: Mapping[str, Any], seen: Mapping[str, Seen], delay: Delay, wanted: frozenset[str]) -> Next:
    """The containers to start now. `wanted`: containers that were stopped for a resize, which are started again
    whatever the restart policy is."""
    spec = pod["spec"]
    policy = _policy(spec)
    containers = spec.get("containers") or []
    regular = [seen[container["name"]] for container in containers]
    inits = spec.get("initContainers") or []
    if not inits and not spec.get("ephemeralContainers") and _all_run(regular):
        return _NOTHING_TO_DO
    begun = any(observed.last is not None for observed in regular)
    collected = _Collected(delay, wanted)
    if begun:
        initialized = True
        for container in inits:
            if is_sidecar(container):
                collected.consider(seen[container["name"]], True)
    else:
        verdict = _initialize(inits, seen, policy, collected)
        if verdict == "failed":
            return Next(over=True, stop=_sidecars_running(inits, seen))
        initialized = verdict == "done"
    if initialized:
        for container, observed in zip(containers, regular, strict=True):
            collected.consider(observed, restartable(container, observed, policy))
    over = begun and all(
        _ended(container, observed, policy, wanted) for container, observed in zip(containers, regular, strict=True)
    )
    if over:
        return Next(over=True, initialized=True, stop=_sidecars_running(inits, seen))
    looking = [seen[ephemeral["name"]] for ephemeral in spec.get("ephemeralContainers") or ()]
    fresh = [observed.name for observed in looking if observed.last is None or observed.created_only]
    return Next((*fresh, *collected.start), tuple(collected.later), (), False, initialized)


def _policy(spec: Mapping[str, Any]) -> str:
    policy = str(spec.get("restartPolicy") or "Always")
    return "OnFailure" if policy == "Always" and ends_when_shut_down(spec) else policy


_NOTHING_TO_DO = Next(initialized=True)


def _all_run(containers: list[Seen]) -> bool:
    for container in containers:
        last = container.last
        if last is None or last.state != RUNNING:
            return False
    return bool(containers)


class _Collected:
    def __init__(self, delay: Delay, wanted: frozenset[str]) -> None:
        self.delay, self.wanted = delay, wanted
        self.start: list[str] = []
        self.later: list[tuple[str, float]] = []

    def consider(self, observed: Seen, restart: bool) -> None:
        if observed.running:
            return
        if (
            observed.last is None
            or observed.created_only
            or (observed.exited and observed.name in self.wanted)
            or (observed.exited and restart)
        ):
            self._due(observed)

    def _due(self, observed: Seen) -> None:
        seconds = 0.0 if observed.name in self.wanted else self.delay(observed)
        if seconds > 0:
            self.later.append((observed.name, seconds))
        else:
            self.start.append(observed.name)


def _initialize(inits: list[Object], seen: Mapping[str, Seen], policy: str, collected: _Collected) -> str:
    """Starts init containers one after the other. Returns "done", "waiting" or "failed"."""
    for container in inits:
        observed = seen[container["name"]]
        if is_sidecar(container):
            collected.consider(observed, True)
            if not observed.started:
                return "waiting"
        elif observed.exited and observed.last is not None and observed.last.exit_code == 0:
            continue
        elif observed.exited and not restartable(container, observed, policy):
            return "failed"
        else:
            collected.consider(observed, True)
            return "waiting"
    return "done"


def _sidecars_running(inits: list[Object], seen: Mapping[str, Seen]) -> tuple[str, ...]:
    # Reverse order, because later sidecars may depend on earlier ones.
    return tuple(c["name"] for c in reversed(inits) if seen[c["name"]].running)


def restartable(container: Mapping[str, Any], observed: Seen, policy: str) -> bool:
    """Whether the container may be restarted: by its own restart rules, else its own policy, else the pod's."""
    if observed.last is None:
        return True
    code = observed.last.exit_code
    if any(_matches(rule, code) for rule in container.get("restartPolicyRules") or ()):
        return True
    mine = container.get("restartPolicy") or policy
    return bool(mine == "Always" or (mine == "OnFailure" and code != 0))


def _matches(rule: Mapping[str, Any], code: int) -> bool:
    codes = rule.get("exitCodes") or {}
    listed = code in (codes.get("values") or ())
    return rule.get("action") == "Restart" and listed == (codes.get("operator") == "In")


def _ended(container: Mapping[str, Any], observed: Seen, policy: str, wanted: frozenset[str]) -> bool:
    return observed.exited and observed.name not in wanted and not restartable(container, observed, policy)


def phase(pod: Mapping[str, Any], seen: Mapping[str, Seen], ending: bool, wanted: frozenset[str] = frozenset()) -> str:
    """The pod's phase. `wanted` as in `next_steps`: a pod with a container that is being restarted is not over."""
    spec = pod["spec"]
    policy = _policy(spec)
    containers = spec.get("containers") or []
    regular = [seen[container["name"]] for container in containers]
    if _all_run(regular):
        return "Running"
    inits = spec.get("initContainers") or []
    begun = any(observed.last is not None for observed in regular)
    if not begun and any(_failed_init(container, seen, policy, ending) for container in inits):
        return "Failed"
    if not begun:
        return "Failed" if ending and any(observed.exited for observed in seen.values()) else "Pending"
    if any(observed.running for observed in regular):
        return "Running" if all(observed.last is not None for observed in regular) else "Pending"
    if any(observed.last is None or observed.created_only for observed in regular):
        return "Pending"
    if not ending and any(observed.name in wanted for observed in regular):
        return "Running"
    succeeded = all(observed.last is not None and observed.last.exit_code == 0 for observed in regular)
    sidecars = any(seen[container["name"]].running for container in inits if is_sidecar(container))
    if sidecars and not ending:
        return "Running"
    if ending:
        return "Succeeded" if succeeded else "Failed"
    if any(restartable(container, observed, policy) for container, observed in zip(containers, regular, strict=True)):
        return "Running"
    return "Succeeded" if succeeded else "Failed"


def _failed_init(container: Mapping[str, Any], seen: Mapping[str, Seen], policy: str, ending: bool) -> bool:
    observed = seen[container["name"]]
    if is_sidecar(container) or not observed.exited or observed.last is None or observed.last.exit_code == 0:
        return False
    return ending or not restartable(container, observed, policy)
