"""Everything that can stop changes: the panic button, freezes and maintenance windows.

The updater checks it before it changes a running pod, and admission before it sizes a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.api.registry.kinds import NAMESPACE, kind_named
from podfit.client import Cache
from podfit.vpa.model.changing.waits import Wait
from podfit.vpa.model.changing.windows import BadWindow, open_now
from podfit.vpa.model.objects.pods import annotations_of
from podfit.vpa.observe.caches import PAGE, Caches

FREEZE = "podfit.dev/freeze"
WINDOW = "podfit.dev/maintenance-window"


class ChangeStops:
    """Reads caches only, so a freeze takes effect as soon as the watch delivers it."""

    def __init__(self, caches: Caches, panic_namespace: str, panic_name: str, windows: str = "") -> None:
        """`windows` are the maintenance windows of autoscalers without their own."""
        config_map, name = kind_named("ConfigMap"), f"metadata.name={panic_name}"
        # Watching the one ConfigMap by name delivers it first.
        panic = Cache(caches.client, config_map, panic_namespace, clock=caches.clock, page=PAGE, fieldSelector=name)
        self._panic = caches.add(panic)
        self._namespaces = caches.follow(NAMESPACE, indexes={})
        self._windows, self._clock = windows, caches.clock

    @property
    def caches(self) -> tuple[Cache, ...]:
        """The objects that can freeze changes, besides the autoscalers themselves."""
        return self._panic, self._namespaces

    def panicking(self) -> Wait | None:
        for config in self._panic:
            data = config.get("data") or {}
            if str(data.get("enabled", "true")).lower() != "false":
                why = data.get("reason") or "no reason given"
                meta = config["metadata"]
                where = f"{meta.get('namespace', '')}/{meta['name']}"
                return Wait(
                    "PanicButton",
                    f"all changes are frozen by ConfigMap {where} ({why}) until it is deleted or says enabled: false",
                )
        return None

    def frozen(self, vpa: Mapping[str, Any]) -> Wait | None:
        """Why this autoscaler must not change any pod, not even a new one; None if it may."""
        waiting = self.panicking()
        if waiting is not None:
            return waiting
        namespace = vpa["metadata"].get("namespace", "")
        for holder, words in (
            (vpa, f"VerticalPodAutoscaler {vpa['metadata']['name']}"),
            (self._namespaces.get("", namespace) or {}, f"Namespace {namespace}"),
        ):
            if str(annotations_of(holder).get(FREEZE, "")).lower() not in ("", "false"):
                return Wait("Frozen", f"changes are frozen by annotation {FREEZE} on {words} until it is removed")
        return None

    def holding(self, vpa: Mapping[str, Any]) -> Wait | None:
        """Why this autoscaler's running pods must not be changed now; None if they may."""
        return self.frozen(vpa) or self._outside_window(vpa)

    def _outside_window(self, vpa: Mapping[str, Any]) -> Wait | None:
        text = annotations_of(vpa).get(WINDOW) or self._windows
        try:
            if open_now(text, self._clock.now()):
                return None
        except BadWindow as error:
            return Wait("BadWindow", f"annotation {WINDOW}: {error}")
        return Wait("OutsideWindow", f"changes are allowed in the maintenance window only: {text} (UTC)")
