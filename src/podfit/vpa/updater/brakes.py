"""What can hold back every change: the panic button, freezes, maintenance windows, and budgets of changes over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.client import Cache
from podfit.kit.clock import Clock
from podfit.vpa.model.pods import annotations_of
from podfit.vpa.updater.decide.amend import Wait
from podfit.vpa.updater.decide.windows import BadWindow, open_now

FREEZE = "podfit.dev/freeze"
WINDOW = "podfit.dev/maintenance-window"


class Brakes:
    """Reads caches only, so a freeze holds from the moment the watch brings it."""

    def __init__(self, panic: Cache, namespaces: Cache, windows: str, clock: Clock) -> None:
        self._panic, self._namespaces, self._windows, self._clock = panic, namespaces, windows, clock

    def panicking(self) -> Wait | None:
        for config in self._panic:
            data = config.get("data") or {}
            if str(data.get("enabled", "true")).lower() != "false":
                why = data.get("reason") or "no reason given"
                return Wait("PanicButton", f"all changes are frozen by ConfigMap {config['metadata']['name']}: {why}")
        return None

    def holding(self, vpa: Mapping[str, Any]) -> Wait | None:
        """Why this autoscaler's pods must not be changed now."""
        waiting = self.panicking()
        if waiting is not None:
            return waiting
        namespace = vpa["metadata"].get("namespace", "")
        for holder, words in (
            (vpa, f"VerticalPodAutoscaler {vpa['metadata']['name']}"),
            (self._namespaces.get("", namespace) or {}, f"Namespace {namespace}"),
        ):
            if str(annotations_of(holder).get(FREEZE, "")).lower() not in ("", "false"):
                return Wait("Frozen", f"changes are frozen by annotation {FREEZE} on {words}")
        return self._outside_window(vpa)

    def _outside_window(self, vpa: Mapping[str, Any]) -> Wait | None:
        text = annotations_of(vpa).get(WINDOW) or self._windows
        try:
            if open_now(text, self._clock.now()):
                return None
        except BadWindow as error:
            return Wait("BadWindow", f"annotation {WINDOW}: {error}")
        return Wait("OutsideWindow", f"changes are allowed in the maintenance window only: {text}")
