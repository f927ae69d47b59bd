"""Copies an autoscaler's annotations for nodes (reflex, squeeze) to its pods."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from podfit.api.objects import Object
from podfit.api.pods import reflex, squeeze
from podfit.api.registry.kinds import POD
from podfit.api.status import ApiError
from podfit.client.cache import Key, key_of
from podfit.client.transport import Unreachable
from podfit.vpa.model.objects.matching import by_target, controlling_vpa
from podfit.vpa.model.objects.pods import annotations_of

if TYPE_CHECKING:
    from podfit.vpa.updater.loop import Updater

log = logging.getLogger(__name__)

NOTES = (reflex.ANNOTATION, squeeze.ANNOTATION)


class Allowing:
    def __init__(self, updater: Updater) -> None:
        self._of = updater
        self._allow: dict[str, set[Key]] = {}
        """Autoscalers with these annotations, by namespace: usually none."""

    def on_pod(self, before: Object | None, after: Object | None) -> None:
        if before is None and after is not None and self._allow.get(after["metadata"].get("namespace", "")):
            self._of.tasks.start(self._note(key_of(after)), f"notes on {after['metadata']['name']}")

    def on_vpa(self, before: Object | None, after: Object | None) -> None:
        known = after if after is not None else before
        if known is None:
            return
        key = key_of(known)
        allowing = self._allow.setdefault(key[0], set())
        if after is None or not notes_of(after):
            allowing.discard(key)
            return
        allowing.add(key)
        if before is None or notes_of(before) != notes_of(after):
            for pod in [
                controlled for controlled in self._of.pods if controlled["metadata"].get("namespace", "") == key[0]
            ]:
                self._of.tasks.start(self._note(key_of(pod)), f"notes on {pod['metadata']['name']}")

    async def _note(self, key: Key) -> None:
        pod = self._of.pods.get(*key)
        vpa = self.vpa_of(pod) if pod is not None else None
        if pod is None or vpa is None:
            return
        lacking = {name: text for name, text in notes_of(vpa).items() if annotations_of(pod).get(name) != text}
        if not lacking:
            return
        try:
            await self._of.client.patch(POD, *key, {"metadata": {"annotations": lacking}})
        except (ApiError, Unreachable) as error:
            log.info("notes on pod %s/%s: %s", *key, error)

    def vpa_of(self, pod: Object) -> Mapping[str, Any] | None:
        index = by_target(self._of.caches.watched_vpas_in(pod["metadata"].get("namespace", "")))
        return controlling_vpa(pod, index, self._of.targets.selector_of, self._of.targets.topmost_of)


def notes_of(vpa: Mapping[str, Any]) -> dict[str, str]:
    found = annotations_of(vpa)
    return {name: str(found[name]) for name in NOTES if found.get(name)}
