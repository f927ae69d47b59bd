"""Usage beside requests, states without a podfit node, recommendations beside requests, pods that hold capacity."""

from __future__ import annotations

from typing import Any

from podfit.cli.explaining.autoscalers import other_settings, why_numbers
from podfit.cli.explaining.resizes import room
from podfit.cli.node_side import from_status
from podfit.cli.sizing.recommended import Recommendation
from podfit.cli.sizing.usage import container_uses, node_uses
from podfit.cli.targets import selector_text


def pod(name: str = "p", cpu: str = "100m", phase: str = "Running", **status: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": "32Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
    return {
        "metadata": {"name": name, "namespace": "d", "uid": name},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": resources}]},
        "status": {"phase": phase, **status},
    }


def metrics(cpu: str, memory: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {("d", "p"): {"containers": [{"name": "c", "usage": {"cpu": cpu, "memory": memory}}]}}


NODE = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi"}}}


def test_waste_is_what_is_requested_and_not_used() -> None:
    (use,) = container_uses([pod()], metrics("40m", "16Mi"))
    assert (use.waste("cpu"), use.waste("memory"), use.risk) == (60, 16 << 20, "")


def test_risks_are_named() -> None:
    assert container_uses([pod()], metrics("190m", "60Mi"))[0].risk == "near OOM, throttled"
    assert container_uses([pod()], metrics("10m", "40Mi"))[0].risk == "over memory request"
    killed = pod(containerStatuses=[{"name": "c", "lastState": {"terminated": {"reason": "OOMKilled"}}}])
    assert container_uses([killed], None)[0].risk == "OOM-killed"


def test_pods_that_ended_use_nothing() -> None:
    assert container_uses([pod(phase="Succeeded")], None) == []


def test_a_node_holds_what_its_running_pods_request() -> None:
    waits = pod("w", conditions=[{"type": "PodResizePending", "status": "True"}])
    (use,) = node_uses([NODE], [pod(), waits, pod("x", phase="Failed")], None)
    assert (use.requested["cpu"], use.pods, use.waiting, use.used) == (200, 2, 1, None)


def test_without_a_podfit_node_actuated_is_unknown() -> None:
    shown = pod(containerStatuses=[{"name": "c", "allocatedResources": {"cpu": "100m"}, "resources": {"limits": {}}}])
    (row,) = from_status(shown)
    assert row["actuated"] is None and row["allocated"] == {"requests": {"cpu": "100m"}}


def test_the_pods_that_hold_the_room_are_listed_largest_first() -> None:
    lines, numbers = room(pod("me", "900m"), NODE, [pod("me", "900m"), pod("small", "50m"), pod("big", "300m")])
    assert numbers["cpu"] == {"needs": "900m", "free": "650m", "allocatable": "1"}
    assert "250m short" in lines[0] and lines[1].index("d/big") < lines[1].index("d/small")


def test_a_pending_resize_counts_only_its_allocation() -> None:
    reported = {"requests": {"cpu": "300m", "memory": "32Mi"}}
    waiting = pod(
        "waits",
        "800m",
        containerStatuses=[{"name": "c", "allocatedResources": reported["requests"], "resources": reported}],
        conditions=[{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
    )
    lines, numbers = room(pod("me", "800m"), NODE, [waiting])
    assert numbers["cpu"]["free"] == "700m"
    assert "100m short" in lines[0] and "300m" in lines[1]


def test_pods_off_target_are_counted() -> None:
    one = Recommendation("v", "Auto", "c", "cpu", (100, 205, 195), 150, 200, 250)
    assert one.off == 1 and one.cells()[4] == "100m..205m"


def test_steps_of_different_settings_are_distinguished() -> None:
    numbers = {"containers": {"c": {"resources": {"cpu": {"target": {"value": "100m"}}}}}}
    given = {
        "status": {"recommendation": {"containerRecommendations": [{"containerName": "c", "target": {"cpu": "300m"}}]}}
    }
    assert other_settings(given, numbers)
    given["status"]["recommendation"]["containerRecommendations"][0]["target"] = {"cpu": "105m"}
    assert not other_settings(given, numbers)
    assert "No checkpoint yet" in why_numbers({})[0]


def test_selectors_are_written_as_queries() -> None:
    expressions = [{"key": "t", "operator": "In", "values": ["a", "b"]}, {"key": "x", "operator": "DoesNotExist"}]
    assert selector_text({"matchLabels": {"app": "w"}, "matchExpressions": expressions}) == "app=w,t in (a,b),!x"
    assert selector_text({"app": "w"}) == "app=w"
