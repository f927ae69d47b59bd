"""Deletion: grace periods, finalizers and propagation."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.registry.kinds import NAMESPACE, POD, kind_named
from podfit.api.status import ApiError
from podfit.apiserver.writing import deletes
from podfit.apiserver.writing.deletes import DeleteOutcome

CONFIG_MAP = kind_named("ConfigMap")
NOW = 1_700_000_000.0


def config_map(**meta: Any) -> dict[str, Any]:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c", "namespace": "n", "uid": "u", **meta}}


def pod(node: str = "n1", **meta: Any) -> dict[str, Any]:
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 30} if node else {"terminationGracePeriodSeconds": 30}
    return {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "generation": 1, **meta},
        "spec": spec,
        "status": {},
    }


def test_an_object_that_nothing_holds_goes_at_once() -> None:
    assert deletes.decide(CONFIG_MAP, config_map(), {}, NOW) == DeleteOutcome(remove=True)


def test_a_finalizer_holds_an_object_and_marks_it() -> None:
    obj = config_map(finalizers=["example.com/x"])
    assert deletes.decide(CONFIG_MAP, obj, {}, NOW) == DeleteOutcome(write=True)
    assert obj["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:20Z"
    assert obj["metadata"]["deletionGracePeriodSeconds"] == 0


@pytest.mark.parametrize(("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
def test_a_policy_becomes_a_finalizer(policy: str, finalizer: str) -> None:
    obj = config_map()
    assert deletes.decide(CONFIG_MAP, obj, {"propagationPolicy": policy}, NOW).write
    assert obj["metadata"]["finalizers"] == [finalizer]


def test_background_takes_an_earlier_policy_back() -> None:
    obj = config_map(finalizers=["orphan"])
    assert deletes.decide(CONFIG_MAP, obj, {"propagationPolicy": "Background"}, NOW) == DeleteOutcome(remove=True)


def test_a_bound_pod_gets_its_grace_and_is_written() -> None:
    obj = pod()
    assert deletes.decide(POD, obj, {}, NOW) == DeleteOutcome(write=True)
    assert obj["metadata"]["deletionGracePeriodSeconds"] == 30
    assert obj["metadata"]["generation"] == 2


def test_without_grace_a_pod_is_marked_and_then_removed() -> None:
    assert deletes.decide(POD, pod(), {"gracePeriodSeconds": 0}, NOW) == DeleteOutcome(write=True, remove=True)
    assert deletes.decide(POD, pod(node=""), {}, NOW) == DeleteOutcome(write=True, remove=True)


def test_a_namespace_becomes_terminating_and_waits_for_its_finalizers() -> None:
    obj = {"kind": "Namespace", "metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]}, "status": {}}
    assert deletes.decide(NAMESPACE, obj, {}, NOW) == DeleteOutcome(write=True)
    assert obj["status"] == {"phase": "Terminating"}
    assert deletes.decide(NAMESPACE, obj, {}, NOW) == DeleteOutcome()
    obj["spec"] = {}
    assert deletes.decide(NAMESPACE, obj, {}, NOW) == DeleteOutcome(remove=True)


def test_the_last_finalizer_taken_away_ends_a_deleted_object() -> None:
    old = config_map(finalizers=["x"], deletionTimestamp="2023-11-14T22:13:20Z", deletionGracePeriodSeconds=0)
    assert deletes.ends_with(CONFIG_MAP, config_map(), old)
    assert not deletes.ends_with(CONFIG_MAP, config_map(finalizers=["x"]), old)
    assert not deletes.ends_with(CONFIG_MAP, config_map(), config_map())


@pytest.mark.parametrize("wanted", [{"uid": "other"}, {"resourceVersion": "7"}])
def test_preconditions_that_do_not_hold_are_conflicts(wanted: dict[str, str]) -> None:
    with pytest.raises(ApiError) as caught:
        deletes.check_preconditions(CONFIG_MAP, config_map(resourceVersion="8"), {"preconditions": wanted})
    assert caught.value.code == 409
    deletes.check_preconditions(CONFIG_MAP, config_map(), {"preconditions": {"uid": "u"}})
