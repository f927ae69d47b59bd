"""Queries and changes of workloads and their pods, for tests of the workload controllers."""

from __future__ import annotations

from typing import Any

from tests.support.cluster.whole import Whole

from podfit.client.rest import STRATEGIC

Pods = list[dict[str, Any]]


def status_of(obj: Any) -> dict[str, Any]:
    return dict((obj or {}).get("status") or {})


def sized(cpu: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}}}


def in_force(cpu: str, count: int) -> Any:
    def check(pods: Pods) -> bool:
        shown = [(status_of(pod).get("containerStatuses") or [{}])[0].get("resources") or {} for pod in pods]
        return len(pods) == count and all((item.get("requests") or {}).get("cpu") == cpu for item in shown)

    return check


async def resize(whole: Whole, kind: Any, name: str, cpu: str) -> None:
    await whole.client.patch(kind, "default", name, sized(cpu), content_type=STRATEGIC)


def names_of(objects: Pods) -> set[str]:
    return {obj["metadata"]["name"] for obj in objects}


def messages(events: Pods) -> set[str]:
    return {event["message"] for event in events}
