"""Handles a container near its memory limit with an immediate resize, within the autoscaler's bounds and the free
capacity. It passes the same checks as every other resize."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from podfit.api.objects import Object
from podfit.api.pods.reflex import ANNOTATION, MEMORY, NearLimit, asked_for, mebibytes, near_of
from podfit.api.quantity import BINARY_SI, Quantity
from podfit.client.cache import key_of
from podfit.vpa.model.changing.jsonpatch import Patch, add, annotate, container_patch
from podfit.vpa.model.changing.waits import Wait
from podfit.vpa.model.fitting.container_resources import ContainerResources
from podfit.vpa.model.objects.pods import containers, resource_list
from podfit.vpa.model.objects.policy import (
    IN_PLACE_MODES,
    container_policy,
    controlled_resources,
    controls_limits,
    scaling_off,
    update_mode,
)
from podfit.vpa.updater.acting.changes import resize
from podfit.vpa.updater.acting.restarts import restarted_by
from podfit.vpa.updater.decide.actions import UPDATED_IN_PLACE, Resize
from podfit.vpa.updater.decide.pacing.rollout import Rollout
from podfit.vpa.updater.decide.reflex import EarlierReflexes, Grow, Stay, grown
from podfit.vpa.updater.decide.restriction import Attempts
from podfit.vpa.updater.vpa_pass import VpaPass

if TYPE_CHECKING:
    from podfit.vpa.updater.loop import Updater

AGAIN_S = (0.25, 1.0, 4.0, 15.0)
"""The delays after which a rejected reflex is retried, while the container stays near its limit."""
FORGET_S = 3600.0
PAGE = 4096


class Reflexes:
    def __init__(self, updater: Updater) -> None:
        self._of = updater
        self._before: dict[tuple[str, str], EarlierReflexes] = {}
        """The earlier reflexes, by pod UID and container."""
        self._under_way: set[tuple[str, str, int]] = set()

    # --- watching

    def on_pod(self, before: Object | None, after: Object | None) -> None:
        if after is None:
            return
        near = near_of(after)
        if near is not None and (before is None or near_of(before) != near):
            key = after["metadata"].get("uid", ""), near.container, near.limit
            if key not in self._under_way:
                self._under_way.add(key)
                self._of.tasks.start(self._react(key_of(after), near, key), f"reflex of {key[0]}")

    # --- acting

    async def _react(self, key: tuple[str, str], near: NearLimit, id: tuple[str, str, int]) -> None:
        try:
            for pause in (*AGAIN_S, 0.0):
                pod = self._of.pods.get(*key)
                if pod is None or near_of(pod) is None or _raised(pod, near):
                    return
                refused = await self._once(pod, near)
                if refused is None:
                    return
                self._emit(pod, "Warning", "ReflexHeld", f"Container {near.container} gets no more memory: {refused}")
                if not pause:
                    return
                await self._of.clock.sleep(pause)
        finally:
            self._under_way.discard(id)

    async def _once(self, pod: Object, near: NearLimit) -> str | None:
        """Attempts the resize. None if it was sent, else why not."""
        vpa = self._of.allowing.vpa_of(pod)
        if vpa is None:
            return "no autoscaler controls the pod"
        if not asked_for(pod) and not asked_for(vpa):
            return f"neither pod nor autoscaler has {ANNOTATION}: {MEMORY}"
        if (why := _not_allowed(vpa, near.container)) or (why := self._held(vpa)):
            return why
        now = self._of.clock.monotonic()
        id = pod["metadata"].get("uid", ""), near.container
        before = self._before.get(id, EarlierReflexes())
        before = before if now - before.at < FORGET_S else EarlierReflexes()
        request = _amount(pod, near.container, "requests") or near.limit
        decided = grown(request, near.limit, _most(vpa, near.container), before, now)
        if isinstance(decided, Stay):
            return f"{decided.why}: leak?" if before.count else decided.why
        waiting = await self._send(pod, vpa, near, decided)
        if waiting is not None:
            return waiting.message
        first = before.first_request or request
        self._before[id] = EarlierReflexes(before.count + 1, now, first)
        self._of.undo.hold(vpa, near.container, "memory", decided.request)
        last = ", its bound" if decided.at_bound else ""
        words = f"{near.words}: its limit is raised to {mebibytes(decided.limit)}{last}"
        self._emit(pod, "Normal", "MemoryReflex", words[0].upper() + words[1:])
        self._of.measures.reflexes.labels(vpa["metadata"]["name"], vpa["metadata"].get("namespace", "")).inc()
        return None

    async def _send(self, pod: Object, vpa: Mapping[str, Any], near: NearLimit, decided: Grow) -> Wait | None:
        action = _action(pod, near.container, decided)
        if restarted_by(action):
            return Wait("RestartNeeded", "its resizePolicy would restart it")
        updater, now = self._of, self._of.clock.now()
        deadline = updater.clock.monotonic() + updater.config.updater_interval
        rollout = Rollout(vpa, [pod], now, updater.config.rolling_settle)
        world = updater.view_of([vpa], [pod])
        return await resize(VpaPass(updater, world, vpa, [pod], Attempts(), now, deadline, None, rollout, True), action)

    def _held(self, vpa: Mapping[str, Any]) -> str:
        waiting = self._of.stops.holding(vpa)
        return waiting.message if waiting is not None else ""

    def _emit(self, pod: Object, type: str, reason: str, message: str) -> None:
        self._of.events.record({"kind": "Pod", "apiVersion": "v1", "metadata": pod["metadata"]}, type, reason, message)

    def forget(self, alive: set[str]) -> None:
        self._before = {id: state for id, state in self._before.items() if id[0] in alive}


def _not_allowed(vpa: Mapping[str, Any], container: str) -> str:
    policy = container_policy(vpa, container)
    if update_mode(vpa) not in IN_PLACE_MODES:
        return f"mode {update_mode(vpa)} does not resize in place"
    if scaling_off(policy) or "memory" not in controlled_resources(policy):
        return "its policy does not control memory"
    return "" if controls_limits(policy) else "its policy does not change limits"


def _most(vpa: Mapping[str, Any], container: str) -> int | None:
    found = resource_list(container_policy(vpa, container).get("maxAllowed")).get("memory")
    return found.value if found is not None else None


def _named(pod: Mapping[str, Any], name: str) -> tuple[int, Mapping[str, Any]] | None:
    return next(
        ((at, container) for at, container in enumerate(containers(pod)) if container.get("name") == name), None
    )


def _amount(pod: Mapping[str, Any], name: str, kind: str) -> int | None:
    found = _named(pod, name)
    text = ((found[1].get("resources") or {}).get(kind) or {}).get("memory") if found is not None else None
    return Quantity.parse(text).value if text is not None else None


def _raised(pod: Mapping[str, Any], near: NearLimit) -> bool:
    """Whether the container's limit differs from the one that was reported; the kernel counts in pages."""
    return abs((_amount(pod, near.container, "limits") or 0) - near.limit) >= PAGE


def _action(pod: Object, name: str, decided: Grow) -> Resize:
    found = _named(pod, name)
    assert found is not None
    wanted = ContainerResources(
        {"memory": Quantity.of_units(decided.request, BINARY_SI)},
        {"memory": Quantity.of_units(decided.limit, BINARY_SI)},
    )
    patch = container_patch(found[1], found[0], wanted)[0]
    notes: Patch = [add("/metadata/annotations", {})] if (pod["metadata"].get("annotations")) is None else []
    return replace(Resize(pod, patch, []), annotations=[*notes, annotate(UPDATED_IN_PLACE, "true")])
