"""The Events of a resize, with Kubernetes' exact wording."""

from __future__ import annotations

from typing import Any, cast

from podfit.agent.pods.events import Events, details
from podfit.client.recording.events import EventRecorder

SIZE = {"requests": {"cpu": "1"}}
POD = {
    "metadata": {"name": "p", "generation": 3},
    "spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]},
}


class Kept:
    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def record(self, *event: Any) -> None:
        self.events.append(event)


def emitted() -> tuple[Events, Kept]:
    kept = Kept()
    return Events(cast(EventRecorder, kept)), kept


def test_the_details_list_init_containers_first_and_escape_as_go_does() -> None:
    assert details(POD, {"c": SIZE}, 3, "1 < 2 & 3 > 2") == (
        '{"initContainers":[{"name":"i","resources":{}}],"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}],'
        '"generation":3,"error":"1 \\u003c 2 \\u0026 3 \\u003e 2"}'
    )


def test_each_stage_has_its_reason_and_type() -> None:
    events, kept = emitted()
    events.started(POD, {}, 3)
    events.completed(POD, {}, 3)
    events.failed(POD, {}, 3, "no")
    events.refused(POD, "ResizeDeferred", "deferred", {}, "no room")
    assert [event[1:3] for event in kept.events] == [
        ("Normal", "ResizeStarted"),
        ("Normal", "ResizeCompleted"),
        ("Warning", "ResizeError"),
        ("Warning", "ResizeDeferred"),
    ]
    assert kept.events[-1][3].startswith('Pod resize deferred: {"initContainers"')


def test_an_event_about_a_container_names_its_field() -> None:
    events, kept = emitted()
    events.emit(POD, "Normal", "Started", "Container started", "i")
    events.emit(POD, "Normal", "Killing", "x")
    assert [event[4] for event in kept.events] == ["spec.initContainers{i}", ""]
