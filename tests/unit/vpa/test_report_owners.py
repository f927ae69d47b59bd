"""The workload that a pod belongs to, even if the pod is gone."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.vpa.report.cluster.owners import Owners
from podfit.vpa.report.cluster.workloads import Key, gathered

KEYS = [
    Key("n", "Deployment", "web"),
    Key("n", "Deployment", "web-front"),
    Key("n", "StatefulSet", "db"),
    Key("n", "DaemonSet", "log"),
    Key("n", "CronJob", "nightly"),
    Key("n", "Job", "once"),
]


@pytest.mark.parametrize(
    ("pod", "owner"),
    [
        ("web-7d9f8c6b5-x2x4z", ("Deployment", "web")),
        ("web-front-7d9f8c6b5-x2x4z", ("Deployment", "web-front")),
        ("db-0", ("StatefulSet", "db")),
        ("log-x2x4z", ("DaemonSet", "log")),
        ("nightly-29384756-x2x4z", ("CronJob", "nightly")),
        ("once-x2x4z", ("Job", "once")),
    ],
)
def test_a_pod_that_was_deleted_is_found_by_its_name(pod: str, owner: tuple[str, str]) -> None:
    assert Owners(KEYS, {}).of("n", pod) == Key("n", *owner)


@pytest.mark.parametrize(
    "pod", ["web", "webb-7d9f8c6b5-x2x4z", "web-7d9f8c6b5-x2x4zz", "db-x", "log-aeiou", "web-1-2-3"]
)
def test_a_name_that_no_controller_generates_has_no_owner(pod: str) -> None:
    assert Owners(KEYS, {}).of("n", pod) is None


def test_a_name_of_another_namespace_has_no_owner() -> None:
    assert Owners(KEYS, {}).of("m", "db-0") is None


def test_a_recorded_owner_wins_over_the_name() -> None:
    recorded = {("n", "db-0"): ("ReplicaSet", "web-7d9f8c6b5")}
    assert Owners(KEYS, {}, recorded).of("n", "db-0") == Key("n", "Deployment", "web")
    above = {("n", "ReplicaSet", "odd"): ("Deployment", "web-front")}
    assert Owners(KEYS, {}, {("n", "p"): ("ReplicaSet", "odd")}, above).of("n", "p") == Key(
        "n", "Deployment", "web-front"
    )


def made(kind: str, name: str, owner: tuple[str, str] | None = None, **more: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"namespace": "n", "name": name}
    if owner is not None:
        meta["ownerReferences"] = [{"kind": owner[0], "name": owner[1], "controller": True}]
    return {
        "kind": kind,
        "metadata": meta,
        "spec": {"containers": [{"name": "c"}], **more},
        "status": {"phase": "Running"},
    }


def test_pods_are_gathered_under_their_topmost_owner() -> None:
    template = {"template": {"spec": {"containers": [{"name": "c"}]}}}
    controllers = {
        "Deployment": [made("Deployment", "web", **template)],
        "ReplicaSet": [
            made("ReplicaSet", "web-1", ("Deployment", "web"), **template),
            made("ReplicaSet", "canary-1", ("Rollout", "canary"), **template),
        ],
    }
    pods = [
        made("Pod", "a", ("ReplicaSet", "web-1")),
        made("Pod", "b", ("ReplicaSet", "canary-1")),
        made("Pod", "alone"),
        made("Pod", "mirror", ("Node", "n1")),
    ]
    found = gathered(pods, controllers)
    assert {key[1:]: [pod["metadata"]["name"] for pod in item.pods] for key, item in found.items()} == {
        ("Deployment", "web"): ["a"],
        ("Rollout", "canary"): ["b"],
        ("Pod", "alone"): ["alone"],
        ("Pod", "mirror"): ["mirror"],
    }
    assert found[Key("n", "Rollout", "canary")].foreign


def test_owners_in_a_circle_end() -> None:
    circle = [made("ReplicaSet", "a", ("ReplicaSet", "b")), made("ReplicaSet", "b", ("ReplicaSet", "a"))]
    assert gathered([made("Pod", "p", ("ReplicaSet", "a"))], {"ReplicaSet": circle})


def test_pods_that_ended_are_left_out() -> None:
    done = made("Pod", "done")
    done["status"]["phase"] = "Succeeded"
    assert not gathered([done], {})
