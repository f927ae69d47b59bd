"""Events in the events.k8s.io form: with an action, a time in microseconds, and repeats as a series.

kube-scheduler writes its Events in this form; controllers and kubelets use the older one (`events`).
"""

from __future__ import annotations

from collections.abc import Mapping

from podfit.api.objects import Object
from podfit.client.recording.events import EventRecorder, PendingEvent
from podfit.client.rest import Client
from podfit.kit.clock import Clock, rfc3339_micro


class ActionRecorder(EventRecorder):
    def __init__(
        self, client: Client, component: str, instance: str, actions: Mapping[str, str], clock: Clock | None = None
    ) -> None:
        """`instance` identifies the replica that reports; `actions` maps each reason to its action."""
        super().__init__(client, component, instance, clock, correlate=False)
        self._actions = actions

    def _repeated(self, event: PendingEvent, count: int) -> Object:
        return {"series": {"count": count, "lastObservedTime": rfc3339_micro(event.last_s)}}

    def _body(self, event: PendingEvent) -> Object:
        body = super()._body(event)
        del body["count"]
        body.update(source={}, firstTimestamp=None, lastTimestamp=None, eventTime=rfc3339_micro(event.first_s))
        body["action"] = self._actions[event.reason]
        if event.related is not None:
            body["related"] = event.related
        if event.count > 1:
            body.update(self._repeated(event, event.count))
        return body
