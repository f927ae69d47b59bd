"""The autoscaler's cached facts about pods are never outdated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import CollectorRegistry

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.client import Cache
from podfit.kit.clock import FakeClock
from podfit.vpa.admission.lookup import Index
from podfit.vpa.admission.measures import AdmissionMeasures
from podfit.vpa.observe import trims
from podfit.vpa.observe.caches import Caches
from podfit.vpa.observe.headroom import Headroom


def pod(name: str, cpu: str, status: Object | None = None) -> Object:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]
    spec = {"containers": containers, "nodeName": "n"}
    return {"metadata": {"name": name, "namespace": "d", "uid": name}, "spec": spec, "status": status or {}}


class Followed:
    """A cache, as far as its readers need it."""

    def __init__(self, *objects: Object) -> None:
        self.objects = list(objects)
        self.handlers: list[Any] = []

    def __iter__(self) -> Any:
        return iter(self.objects)

    def subscribe(self, handler: Any) -> None:
        self.handlers.append(handler)

    def change(self, before: Object | None, after: Object | None) -> None:
        for handler in self.handlers:
            handler(before, after)

    def by(self, index: str, value: str) -> list[Object]:
        return []


def test_of_a_pod_the_fields_that_are_read_are_kept() -> None:
    one = pod("p", "1")
    assert trims.pod(one)["spec"]["containers"] == [
        {"name": "c", "resources": one["spec"]["containers"][0]["resources"]}
    ]


def room(headroom: Headroom) -> int:
    return headroom.node_left(pod("any", "1"), dict)[1]["cpu"]


def test_room_follows_every_state_of_a_pod() -> None:
    pods = Followed()
    nodes = Followed()
    headroom = Headroom(cast(Cache, nodes), cast(Cache, pods), cast(Cache, Followed()))
    headroom.start()
    nodes.change(None, {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "10", "memory": "10Gi"}}})
    small, twin = pod("p", "1"), pod("q", "1")
    pods.change(None, small)
    pods.change(None, twin)
    assert room(headroom) == 8000
    wanted = pod("p", "3", {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]})
    pods.change(small, wanted)
    assert room(headroom) == 6000
    infeasible = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    refused = {**wanted, "status": {**wanted["status"], "conditions": infeasible}}
    pods.change(wanted, refused)
    assert room(headroom) == 8000
    granted = pod("p", "3", {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]})
    pods.change(refused, granted)
    assert room(headroom) == 5000
    # After a response of the server, the watch may deliver the same state again, or the next one at once.
    headroom.count(pod("p", "2"))
    assert room(headroom) == 7000
    pods.change(granted, {**granted, "metadata": {**granted["metadata"], "resourceVersion": "9"}})
    assert room(headroom) == 5000
    pods.change(granted, None)
    assert room(headroom) == 9000
    assert headroom.requested_by(twin)["cpu"] == Quantity.parse("1").milli


def test_a_namespace_counts_as_soon_as_it_has_an_autoscaler_and_no_longer() -> None:
    vpas = Followed()
    sight = SimpleNamespace(vpas=vpas, watched_vpas=lambda: list(vpas))
    index = Index(cast(Caches, sight), cast(Cache, Followed()), lambda target: None)
    index.start()
    assert index.namespaces == frozenset()
    target = {"targetRef": {"kind": "Deployment", "name": "web"}}
    vpas.objects.append({"metadata": {"name": "v", "namespace": "d"}, "spec": target})
    vpas.change(None, vpas.objects[0])
    assert index.namespaces == {"d"}
    vpas.change(vpas.objects.pop(), None)
    assert index.namespaces == frozenset()


def test_answers_and_steps_are_counted_each_under_its_own_labels() -> None:
    registry, clock = CollectorRegistry(), FakeClock()
    measures = AdmissionMeasures(registry, clock)
    for outcome, resource in (("skipped", "Pod"), ("applied", "Pod"), ("skipped", "Pod"), ("error", "VPA")):
        measures.answered(outcome, resource, 0.5)
    with measures.steps.step("admit"):
        pass

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"vpa_admission_controller_{name}", labels)

    assert value("admission_latency_seconds_count", status="skipped", resource="Pod") == 2
    assert value("admission_latency_seconds_count", status="error", resource="VPA") == 1
    assert (value("admission_pods_total", applied="false"), value("admission_pods_total", applied="true")) == (2, 1)
    assert value("execution_latency_seconds_count", step="admit") == 1
