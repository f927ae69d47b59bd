"""Pods beyond the recordings: deletion, warnings, ephemeral containers, and errors by field."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import pytest

from podfit.api.registry.kinds import POD
from podfit.apiserver.strategy import strategy_for
from podfit.apiserver.strategy.podspec.defaults import pull_policy

PODS = strategy_for(POD)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pod(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    spec = {"containers": [{"name": "c", "image": "busybox:1"}], **spec}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    PODS.default(made)
    PODS.prepare_create(made)
    return made


def errors(**spec: Any) -> list[str]:
    return [str(error) for error in PODS.validate_create(pod(**spec))]


def container(**more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "busybox:1", **more}]}


def changed(old: dict[str, Any], subresource: str, **spec: Any) -> list[str]:
    new = copy.deepcopy(old)
    new["spec"].update(spec)
    PODS.prepare_update(new, old, subresource)
    return [str(error) for error in PODS.validate_update(new, old, subresource)]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("busybox:1.36", "IfNotPresent"),
        ("localhost:5000/a/b", "Always"),
        ("localhost:5000/a/b:v1", "IfNotPresent"),
        ("a@sha256:" + "0" * 64, "IfNotPresent"),
        ("a:latest@sha256:" + "0" * 64, "Always"),
        ("Not An Image", "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_from_the_tag(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (
            container(ports=[{"containerPort": 0}]),
            ["spec.containers[0].ports[0].containerPort: Required value"],
        ),
        (
            container(ports=[{"containerPort": 70000}]),
            ["spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"],
        ),
        (
            container(ports=[{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}]),
            ['spec.containers[0].ports[1].name: Duplicate value: "a"'],
        ),
        (
            container(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
            ['spec.containers[0].volumeMounts[0].name: Not found: "v"'],
        ),
        (
            container(livenessProbe={"httpGet": {"port": 1}, "exec": {"command": ["x"]}}),
            ["spec.containers[0].livenessProbe.httpGet: Forbidden: may not specify more than 1 handler type"],
        ),
        (
            container(livenessProbe={}),
            ["spec.containers[0].livenessProbe: Required value: must specify a handler type"],
        ),
        (
            container(imagePullPolicy="Sometimes"),
            [
                'spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", '
                '"IfNotPresent", "Never"'
            ],
        ),
        (
            container(env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
            ['spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'],
        ),
        (
            {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]},
            ['spec.volumes[1].name: Duplicate value: "a"'],
        ),
        (
            {"tolerations": [{"operator": "Equal", "value": "x"}]},
            [
                'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, '
                'which means "match all values and all keys"'
            ],
        ),
        (
            {"activeDeadlineSeconds": 0},
            ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
        (
            {"ephemeralContainers": [{"name": "d", "image": "x"}]},
            ["spec.ephemeralContainers: Forbidden: cannot be set on create"],
        ),
        (
            {"nodeName": "n", "schedulingGates": [{"name": "a/b"}]},
            ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
        ),
        (
            {"dnsPolicy": "None"},
            ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        ),
        (
            {"os": {"name": "linux"}, "securityContext": {"windowsOptions": {"hostProcess": False}}},
            ["spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod"],
        ),
    ],
)
def test_a_wrong_field_is_named_as_kubernetes_names_it(spec: dict[str, Any], wanted: list[str]) -> None:
    assert errors(**spec) == wanted


def test_a_pod_deleted_twice_keeps_the_shorter_grace_period() -> None:
    made = pod(nodeName="n1")
    first = PODS.graceful_delete(made, {}, NOW)
    assert (first.graceful, first.grace_s, made["metadata"]["deletionTimestamp"]) == (True, 30, "2026-01-01T00:00:30Z")
    assert made["metadata"]["generation"] == 2
    assert PODS.graceful_delete(made, {"gracePeriodSeconds": 60}, NOW).pending
    shorter = PODS.graceful_delete(made, {"gracePeriodSeconds": 5}, NOW)
    assert (shorter.grace_s, made["metadata"]["deletionTimestamp"]) == (5, "2026-01-01T00:00:05Z")
    assert made["metadata"]["generation"] == 2


def test_a_pod_that_runs_nowhere_is_gone_at_once() -> None:
    assert PODS.graceful_delete(pod(), {"gracePeriodSeconds": 60}, NOW).grace_s == 0


def test_a_negative_grace_period_means_one_second() -> None:
    assert PODS.graceful_delete(pod(nodeName="n"), {"gracePeriodSeconds": -1}, NOW).grace_s == 1


def test_a_dotted_name_and_fractional_bytes_are_warned_about() -> None:
    made = pod(**container(resources={"requests": {"memory": "100m"}}))
    made["metadata"]["name"] = "a.b"
    assert PODS.warnings_create(made) == [
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
        "a DNS label is recommended: [must not contain dots]",
        'spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer',
    ]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (
            container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
            ['spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply'],
        ),
        (container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]), []),
        (
            container(ports=[{"containerPort": 80}, {"containerPort": 80}]),
            ["spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"],
        ),
        (
            {"nodeSelector": {"beta.kubernetes.io/os": "linux"}},
            ['spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead'],
        ),
        (
            {"imagePullSecrets": [{"name": "a"}, {"name": "a"}]},
            ['spec.imagePullSecrets[1].name: duplicate name "a"'],
        ),
    ],
)
def test_probable_mistakes_cause_warnings(spec: dict[str, Any], wanted: list[str]) -> None:
    assert PODS.warnings_create(pod(**spec)) == wanted


def test_an_update_of_a_pod_is_not_warned_about() -> None:
    doubtful = pod(nodeSelector={"beta.kubernetes.io/os": "linux"})
    assert PODS.warnings_create(doubtful)
    assert PODS.warnings_update(doubtful, doubtful) == []


@pytest.mark.parametrize(
    ("added", "wanted"),
    [
        ({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}, []),
        (
            {
                "requests": {"cpu": "1", "hugepages-2Mi": "2Mi"},
                "limits": {"cpu": "2", "hugepages-2Mi": "2Mi"},
            },
            ["spec: Forbidden: only cpu and memory resources are mutable at pod-level"],
        ),
    ],
)
def test_pod_level_cpu_can_be_added_by_a_resize_and_huge_pages_cannot(added: dict[str, Any], wanted: list[str]) -> None:
    old = pod(**container(resources={"requests": {"cpu": "500m"}}))
    assert changed(old, "resize", resources=added) == wanted


@pytest.mark.parametrize("kept", [None, []])
def test_a_resize_that_takes_all_containers_away_is_refused(kept: list[Any] | None) -> None:
    old = pod(**container(resources={"requests": {"cpu": "500m"}}))
    new = {**old, "spec": {**old["spec"], "containers": kept}}
    assert PODS.own_changes(dict(new), old)
    assert changed(old, "resize", containers=kept) == [
        "spec.containers: Required value",
        'spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing',
        "spec.containers: Forbidden: containers may not be added or removed on resize",
    ]


def test_two_controlling_owners_are_refused_by_kind_and_name() -> None:
    made = pod()
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": True}
    made["metadata"]["ownerReferences"] = [owner, {**owner, "name": "m"}]
    (found,) = PODS.validate_create(made)
    assert found.detail.endswith('Found "true" in references for Node/n and Node/m')


def test_ephemeral_containers_can_be_added_and_never_changed() -> None:
    old = pod()
    added = [{"name": "d", "image": "x", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}]
    assert changed(old, "ephemeralcontainers", ephemeralContainers=added) == []
    old["spec"]["ephemeralContainers"] = added
    assert changed(old, "ephemeralcontainers", ephemeralContainers=[]) == [
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "d" may not be removed\n'
    ]


def test_the_ephemeral_endpoint_drops_everything_else_and_counts() -> None:
    old = pod()
    new = copy.deepcopy(old)
    new["spec"]["ephemeralContainers"] = [{"name": "d", "image": "x"}]
    new["spec"]["restartPolicy"] = "Never"
    new["metadata"]["labels"] = {"a": "b"}
    PODS.prepare_update(new, old, "ephemeralcontainers")
    assert new["spec"]["restartPolicy"] == "Always"
    assert "labels" not in new["metadata"]
    assert new["metadata"]["generation"] == 2


def test_gates_can_only_be_taken_away() -> None:
    old = pod(schedulingGates=[{"name": "x/a"}])
    assert changed(old, "", schedulingGates=[]) == []
    assert changed(old, "", schedulingGates=[{"name": "x/b"}]) == [
        "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'x/b'"
    ]


def test_a_container_that_ended_permanently_cannot_run_again() -> None:
    old = pod(restartPolicy="Never")
    old["status"]["containerStatuses"] = [{"name": "c", "state": {"terminated": {"exitCode": 0}}}]
    new = copy.deepcopy(old)
    new["status"]["containerStatuses"][0]["state"] = {"running": {}}
    PODS.prepare_update(new, old, "status")
    assert [str(error) for error in PODS.validate_update(new, old, "status")] == [
        "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    ]


def test_a_bad_label_on_update_is_reported_by_every_check_that_sees_it() -> None:
    old = pod()
    new = copy.deepcopy(old)
    new["metadata"]["labels"] = {"a": "b c"}
    PODS.prepare_update(new, old)
    assert len(PODS.validate_update(new, old)) == 4


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("a", "x" * 64, "must be no more than 63 bytes"),
        ("x" * 64, "a", "name part must be no more than 63 bytes"),
        ("x" * 254 + "/a", "a", "prefix part must be no more than 253 bytes"),
        ("a/b/c", "a", "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start"),
    ],
)
def test_labels_are_counted_in_bytes_and_called_so(key: str, value: str, wanted: str) -> None:
    made = pod()
    made["metadata"]["labels"] = {key: value}
    (found,) = PODS.validate_create(made)
    assert found.detail.startswith(wanted)
