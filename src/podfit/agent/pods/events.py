"""Emits the Events about a resize, worded exactly as in Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from podfit.api.objects import Object
from podfit.client.recording.events import EventRecorder

NORMAL, WARNING = "Normal", "Warning"


class Events:
    """Emits the Events about a resize. `shown` is always the sizes of the pod's containers as Kubernetes prints them,
    by name."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def emit(self, pod: Object, type: str, reason: str, message: str, container: str = "") -> None:
        """`container`: the container that the Event is about, if any."""
        about = {"kind": "Pod", "apiVersion": "v1", "metadata": pod["metadata"]}
        self._recorder.record(about, type, reason, message, _field(pod, container) if container else "")

    def started(self, pod: Object, shown: Mapping[str, Object], generation: int) -> None:
        self.emit(pod, NORMAL, "ResizeStarted", f"Pod resize started: {details(pod, shown, generation)}")

    def completed(self, pod: Object, shown: Mapping[str, Object], generation: int) -> None:
        self.emit(pod, NORMAL, "ResizeCompleted", f"Pod resize completed: {details(pod, shown, generation)}")

    def failed(self, pod: Object, shown: Mapping[str, Object], generation: int, error: str) -> None:
        self.emit(pod, WARNING, "ResizeError", f"Pod resize error: {details(pod, shown, generation, error)}")

    def refused(self, pod: Object, event: str, raw: str, shown: Mapping[str, Object], error: str) -> None:
        generation = int(pod["metadata"].get("generation") or 0)
        self.emit(pod, WARNING, event, f"Pod resize {raw}: {details(pod, shown, generation, error)}")


def _field(pod: Object, container: str) -> str:
    for key in ("containers", "initContainers", "ephemeralContainers"):
        if any(candidate["name"] == container for candidate in pod["spec"].get(key) or ()):
            return f"spec.{key}{{{container}}}"
    return ""


def details(pod: Mapping[str, Any], shown: Mapping[str, Object], generation: int, error: str = "") -> str:
    """The JSON in the messages of these Events: initContainers, containers, generation, error, in this order."""
    fields: Object = {}
    for key in ("initContainers", "containers"):
        if containers := pod["spec"].get(key):
            fields[key] = [
                {"name": container["name"], "resources": shown.get(container["name"], {})} for container in containers
            ]
    fields["generation"] = generation
    if error:
        fields["error"] = error
    return _go_json(fields)


def _go_json(value: Object) -> str:
    """JSON as Go's encoder prints it: no blanks, and <, >, & escaped."""
    text = msgspec.json.encode(value).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
