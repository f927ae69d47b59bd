"""The resources that a node lacks for a resize, computed from Node and Pods."""

from __future__ import annotations

from typing import Any

from podfit.cli.resizing.shortages import shortage_on

NODE = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "memory": "4Gi"}}}


def pod(name: str, asked: dict[str, str], allocated: dict[str, str]) -> dict[str, Any]:
    status = {"name": "c", "allocatedResources": allocated, "resources": {"requests": allocated}}
    return {
        "metadata": {"name": name, "namespace": "d", "uid": name},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"requests": asked}}]},
        "status": {"phase": "Running", "containerStatuses": [status]},
    }


def test_a_deferred_resize_names_what_is_needed_and_what_is_free() -> None:
    me, other = pod("me", {"cpu": "300m"}, {"cpu": "100m"}), pod("other", {"cpu": "1880m"}, {"cpu": "1880m"})
    assert shortage_on(me, NODE, [me, other]) == "needs 300m cpu, node n1 has 120m free"


def test_a_request_larger_than_the_node_names_what_it_has_in_all() -> None:
    me = pod("me", {"memory": "64Gi"}, {"memory": "1Gi"})
    assert shortage_on(me, NODE, [me]) == "needs 64Gi memory, node n1 has 4Gi in all"


def test_others_count_with_what_is_allocated_to_them_not_with_what_they_wait_for() -> None:
    me, waiting = pod("me", {"cpu": "1"}, {"cpu": "100m"}), pod("waiting", {"cpu": "2"}, {"cpu": "500m"})
    assert shortage_on(me, NODE, [me, waiting]) == ""


def test_pods_that_have_ended_hold_nothing() -> None:
    me, ended = pod("me", {"cpu": "1"}, {"cpu": "100m"}), pod("ended", {"cpu": "2"}, {"cpu": "2"})
    ended["status"]["phase"] = "Succeeded"
    assert shortage_on(me, NODE, [me, ended]) == ""
