"""The scheduler's records of pods."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.objects import Object
from podfit.scheduler.decide.pod.needs import needs_of
from podfit.scheduler.decide.pod.pods import resident


def pod(name: str, cpu: str = "1", memory: str = "1Gi", on: str = "", app: str = "a", **spec: Any) -> Object:
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    containers = [{"name": "c", "resources": {"requests": requests}}]
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": {"app": app}}
    placed = {"nodeName": on} if on else {}
    return {"metadata": meta, "spec": {"containers": containers, **placed, **spec}, "status": {}}


def test_a_status_without_amounts_requests_what_the_spec_does() -> None:
    plain, body = pod("p"), {**pod("p"), "status": {"phase": "Pending", "conditions": []}}
    assert needs_of(body, use_status=True) is needs_of(plain, use_status=False)
    statuses = [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]
    grown = {**body, "status": {**body["status"], "containerStatuses": statuses}}
    assert needs_of(grown, use_status=True).amounts["cpu"] == 3000


@pytest.mark.parametrize(
    ("where", "field", "value"),
    [
        ("metadata", "uid", "another"),
        ("metadata", "labels", {"app": "b"}),
        ("metadata", "deletionTimestamp", "2026-01-01T00:00:00Z"),
        ("spec", "nodeName", "n2"),
        ("spec", "priority", 7),
    ],
)
def test_a_resident_is_still_the_same_until_something_counts(where: str, field: str, value: object) -> None:
    one = pod("p", on="n1")
    here = resident(one)
    assert here.still({**one, "status": {**one["status"], "phase": "Running"}})
    assert not here.still({**one, where: {**one[where], field: value}})


def test_a_resident_takes_what_it_took_until_its_requests_change() -> None:
    one = pod("p", on="n1")
    here, requests = resident(one), one["spec"]["containers"][0]["resources"]["requests"]
    held = {"name": "c", "resources": {"requests": requests, "limits": {"cpu": "9"}}, "allocatedResources": requests}
    assert here.other_needs({**one, "status": {"containerStatuses": [held]}}) is None
    more = {**held, "allocatedResources": {**requests, "cpu": "3"}}
    needs = here.other_needs({**one, "status": {"containerStatuses": [more]}})
    assert needs is not None and needs.amounts["cpu"] == 3000
