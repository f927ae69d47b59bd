"""Invalid metadata is rejected with the number and wording of errors of Kubernetes 1.36."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker, serving

MERGE = "application/merge-patch+json"
SPACE = "/namespaces/default"
LABELS, NAME, FINALIZERS = "metadata.labels", "metadata.generateName", "metadata.finalizers[0]"
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SELECTOR = {"matchLabels": {"a": "b"}}
JOB = {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
BAD = {"labels": {"k": "v" * 64}, "finalizers": ["foo"], "generateName": "A_b"}

KINDS: list[tuple[str, str, dict[str, Any], str]] = [
    # path, kind, fields, the fields that a bad update is complained about (L: labels, G: generateName, F: finalizers)
    (f"/api/v1{SPACE}/configmaps", "ConfigMap", {}, "LLLFGLF"),
    (f"/api/v1{SPACE}/services", "Service", {"spec": {"clusterIP": "None"}}, "LLLF"),
    (f"/api/v1{SPACE}/limitranges", "LimitRange", {"spec": {"limits": []}}, "LLGLF"),
    (f"/api/v1{SPACE}/resourcequotas", "ResourceQuota", {"spec": {}}, "LLLF"),
    (f"/api/v1{SPACE}/events", "Event", {"involvedObject": {"namespace": "default"}}, "LL"),
    ("/api/v1/nodes", "Node", {}, "LLGLFLF"),
    ("/api/v1/namespaces", "Namespace", {}, "LLGLFLF"),
    (f"/apis/apps/v1{SPACE}/deployments", "Deployment", {"spec": {"selector": SELECTOR, "template": TEMPLATE}}, "LLLF"),
    (f"/apis/batch/v1{SPACE}/jobs", "Job", {"spec": JOB}, "LLGLFLF"),
    (f"/apis/policy/v1{SPACE}/poddisruptionbudgets", "PodDisruptionBudget", {"spec": {"selector": SELECTOR}}, "LL"),
    (f"/apis/coordination.k8s.io/v1{SPACE}/leases", "Lease", {}, "LLL"),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", "PriorityClass", {"value": 1}, "LLLF"),
    ("/apis/node.k8s.io/v1/runtimeclasses", "RuntimeClass", {"handler": "h"}, "LLGLL"),
]


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    async with serving(tmp_path) as server:
        yield Asker(server)


def fields(status: dict[str, Any]) -> list[str]:
    return [cause["field"] for cause in status["details"]["causes"]]


@pytest.mark.parametrize(("path", "kind", "more", "complaints"), KINDS, ids=[row[1] for row in KINDS])
async def test_bad_metadata_is_complained_about_as_often_as_each_kind_checks_it(
    ask: Asker, path: str, kind: str, more: dict[str, Any], complaints: str
) -> None:
    version = path.removeprefix("/apis/").removeprefix("/api/").partition(SPACE)[0]
    version = version if SPACE in path else version.rpartition("/")[0]
    code, _ = await ask("POST", path, {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **more})
    assert code == 201
    code, status = await ask("PATCH", f"{path}/x", {"metadata": BAD}, MERGE)
    assert code == 422
    assert fields(status) == [{"L": LABELS, "G": NAME, "F": FINALIZERS}[letter] for letter in complaints]


async def test_a_label_of_a_node_that_is_too_long_has_four_causes(ask: Asker) -> None:
    await ask("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    _, status = await ask("PATCH", "/api/v1/nodes/n", {"metadata": {"labels": {"k": "v" * 64}}}, MERGE)
    assert fields(status) == [LABELS] * 4
    assert status["message"].count("must be no more than 63 bytes") == 1


@pytest.mark.parametrize("kind", ["Event", "PodDisruptionBudget"])
async def test_kinds_that_leave_metadata_to_the_common_checks_take_any_name(ask: Asker, kind: str) -> None:
    path, _, more, _ = next(row for row in KINDS if row[1] == kind)
    code, _ = await ask("POST", path, {"metadata": {"name": "A_b", "finalizers": ["foo"]}, **more})
    assert code == 201


async def test_a_namespace_in_the_metadata_of_a_cluster_wide_object_is_ignored(ask: Asker) -> None:
    await ask("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    code, node = await ask("PATCH", "/api/v1/nodes/n", {"metadata": {"namespace": "other"}}, MERGE)
    assert (code, "namespace" in node["metadata"]) == (200, False)


async def test_owner_references_are_shown_with_their_fields_in_order(ask: Asker) -> None:
    one = {"uid": "u", "name": "a", "kind": "Pod", "apiVersion": "v1", "controller": True}
    other = {"uid": "v", "name": "b", "kind": "Pod", "apiVersion": "a/b/c", "controller": True}
    body = {"metadata": {"name": "c", "ownerReferences": [one, other]}}
    _, status = await ask("POST", f"/api/v1{SPACE}/configmaps", body)
    shown = (
        '[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"u","controller":true},'
        '{"apiVersion":"a/b/c","kind":"Pod","name":"b","uid":"v","controller":true}]'
    )
    assert [cause["message"] for cause in status["details"]["causes"]] == [
        'Invalid value: "a/b/c": version must not be empty',
        f"Invalid value: {shown}: Only one reference can have Controller set to true. "
        'Found "true" in references for Pod/a and Pod/b',
    ]


async def test_a_patched_object_is_shown_with_the_fields_sorted_that_the_patch_touched(ask: Asker) -> None:
    await ask("POST", f"/api/v1{SPACE}/configmaps", {"metadata": {"name": "c"}, "data": {"z": "1", "a": "2"}})
    _, status = await ask("PATCH", f"/api/v1{SPACE}/configmaps/c", {"metadata": {"labels": {"k": 5}}}, MERGE)
    assert status["message"].startswith(
        ' "" is invalid: patch: Invalid value: "{\\"apiVersion\\":\\"v1\\",'
        '\\"data\\":{\\"z\\":\\"1\\",\\"a\\":\\"2\\"},'
        '\\"kind\\":\\"ConfigMap\\",\\"metadata\\":{\\"creationTimestamp\\":'
    )


GENERATED = {"batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"}


@pytest.mark.parametrize(
    ("own", "pods", "expected"),
    [
        (None, {"a": "b"}, {"a"} | GENERATED),
        ({"a": "b"}, {"a": "b"}, {"a"}),
        ({"x": "y"}, {"a": "b"}, {"x"}),
    ],
    ids=["none of its own", "the same", "others"],
)
async def test_a_job_without_labels_takes_all_those_of_its_pods(
    ask: Asker, own: dict[str, str] | None, pods: dict[str, str], expected: set[str]
) -> None:
    template = {**JOB["template"], "metadata": {"labels": pods}}  # type: ignore[dict-item]
    body = {"metadata": {"name": "j", "labels": own}, "spec": {"template": template}}
    _, job = await ask("POST", f"/apis/batch/v1{SPACE}/jobs", body)
    assert set(job["metadata"]["labels"]) == expected
    assert set(job["spec"]["template"]["metadata"]["labels"]) == {"a"} | GENERATED


@pytest.mark.parametrize(
    ("options", "finalizers"),
    [({}, ["orphan"]), ({"propagationPolicy": "Background"}, None), ({"orphanDependents": False}, None)],
    ids=["nothing said", "Background", "no orphans"],
)
async def test_deleting_a_job_keeps_its_pods_unless_the_request_says_otherwise(
    ask: Asker, options: dict[str, Any], finalizers: list[str] | None
) -> None:
    await ask("POST", f"/apis/batch/v1{SPACE}/jobs", {"metadata": {"name": "j"}, "spec": JOB})
    _, answer = await ask("DELETE", f"/apis/batch/v1{SPACE}/jobs/j", options)
    assert answer["metadata"].get("finalizers") == finalizers


async def test_a_change_of_annotations_is_a_new_generation_of_a_deployment(ask: Asker) -> None:
    path, _, more, _ = next(row for row in KINDS if row[1] == "Deployment")
    await ask("POST", path, {"metadata": {"name": "d"}, **more})
    annotated = {"metadata": {"annotations": {"a": "b"}}}
    _, deployment = await ask("PATCH", f"{path}/d/status", annotated, MERGE)
    assert deployment["metadata"]["generation"] == 1
    _, deployment = await ask("PATCH", f"{path}/d", {"metadata": {"annotations": {"a": "c"}}}, MERGE)
    assert deployment["metadata"]["generation"] == 2
    _, deployment = await ask("PATCH", f"{path}/d", {"metadata": {"labels": {"a": "c"}}}, MERGE)
    assert deployment["metadata"]["generation"] == 2
