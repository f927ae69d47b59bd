"""PodSecurity in the chain of plugins: which writes it checks, and its responses."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.registry.kinds import NAMESPACE, POD, kind_named
from podfit.api.status import ApiError
from podfit.apiserver.admission.chain import build
from podfit.apiserver.admission.podsecurity import existing_pods
from podfit.apiserver.admission.podsecurity.plugin import PodSecurity
from podfit.apiserver.admission.podsecurity.policy import PREFIX, Standard
from podfit.kit.clock import FakeClock

SHARING = {"hostPID": True}


@pytest.fixture
def plugin(cluster):
    return PodSecurity(cluster)


@pytest.fixture
def label(cluster):
    def put(**labels: str) -> None:
        cluster.put(NAMESPACE, namespace(**labels))

    return put


def namespace(**labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "ns", "labels": {PREFIX + name.replace("_", "-"): at for name, at in labels.items()}}}


async def test_a_violation_is_forbidden(plugin, label, write, pod):
    label(enforce="baseline", enforce_version="v1.30")
    with pytest.raises(ApiError) as caught:
        await plugin.validate(write(pod(hostPID=True, volumes=[{"name": "v", "hostPath": {"path": "/"}}])))
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    assert caught.value.message == (
        'pods "p" is forbidden: violates PodSecurity "baseline:v1.30": host namespaces (hostPID=true), '
        'hostPath volumes (volume "v")'
    )


async def test_a_rejected_pod_is_not_warned_about_too(plugin, label, write, pod):
    label(enforce="baseline", warn="restricted")
    attrs = write(pod(**SHARING))
    with pytest.raises(ApiError):
        await plugin.validate(attrs)
    assert attrs.warnings == []


async def test_an_admitted_pod_is_warned_about_and_audited(plugin, label, write, pod):
    label(enforce="privileged", warn="baseline", audit="baseline", audit_version="v1.9")
    attrs = write(pod(**SHARING))
    await plugin.validate(attrs)
    assert attrs.warnings == ['would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)']
    assert attrs.annotations == {
        PREFIX + "enforce-policy": "privileged:latest",
        PREFIX + "audit-violations": 'would violate PodSecurity "baseline:v1.9": host namespaces (hostPID=true)',
    }


async def test_labels_that_cannot_be_read_enforce_restricted(plugin, label, write, pod):
    label(enforce="x")
    attrs = write(pod())
    with pytest.raises(ApiError, match='violates PodSecurity "restricted:latest"'):
        await plugin.validate(attrs)
    assert attrs.annotations[PREFIX + "error"].startswith("Failed to parse policy: metadata.labels[")


async def test_a_pod_in_a_namespace_without_labels_may_do_anything(plugin, write, pod):
    attrs = write(pod(**SHARING))
    await plugin.validate(attrs)
    assert (attrs.warnings, attrs.annotations) == ([], {})


@pytest.mark.parametrize(
    ("change", "checked"),
    [
        ({"containers": [{"name": "c1", "image": "other"}]}, True),
        ({"initContainers": [{"name": "i", "image": "other"}]}, True),
        ({"ephemeralContainers": [{"name": "e", "image": "other"}]}, True),
        ({"activeDeadlineSeconds": 5}, False),
    ],
)
async def test_updates_are_checked_if_an_image_changes(plugin, label, write, pod, change, checked):
    label(enforce="baseline")
    old = pod(**SHARING)
    new = {**old, "spec": {**old["spec"], **change}}
    if checked:
        with pytest.raises(ApiError, match="hostPID=true"):
            await plugin.validate(write(new, old=old))
    else:
        await plugin.validate(write(new, old=old))


@pytest.mark.parametrize(
    ("subresource", "checked"), [("", True), ("ephemeralcontainers", True), ("resize", False), ("status", False)]
)
def test_subresources_that_can_change_images_are_checked(plugin, write, pod, subresource, checked):
    assert plugin.handles(write(pod(), old=pod(), subresource=subresource)) is checked


@pytest.mark.parametrize(
    ("kind", "wrap"),
    [
        ("PodTemplate", lambda template: {"template": template}),
        ("ReplicationController", lambda template: {"spec": {"template": template}}),
        ("ReplicaSet", lambda template: {"spec": {"template": template}}),
        ("Deployment", lambda template: {"spec": {"template": template}}),
        ("StatefulSet", lambda template: {"spec": {"template": template}}),
        ("DaemonSet", lambda template: {"spec": {"template": template}}),
        ("Job", lambda template: {"spec": {"template": template}}),
        ("CronJob", lambda template: {"spec": {"jobTemplate": {"spec": {"template": template}}}}),
    ],
)
async def test_templates_are_warned_about_and_never_rejected(plugin, label, write, pod, kind, wrap):
    label(enforce="baseline")
    attrs = write({"metadata": {"name": "w"}, **wrap({"spec": pod(**SHARING)["spec"]})}, kind=kind_named(kind))
    assert plugin.handles(attrs)
    await plugin.validate(attrs)
    assert attrs.warnings == ['would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)']


async def test_a_controller_without_a_template_is_admitted(plugin, label, write):
    label(enforce="restricted")
    attrs = write({"metadata": {"name": "w"}, "spec": {}}, kind=kind_named("ReplicationController"))
    await plugin.validate(attrs)
    assert attrs.warnings == []


async def test_new_namespaces_need_valid_labels(plugin, write):
    with pytest.raises(ApiError) as caught:
        await plugin.validate(write(namespace(warn="x", warn_version="1"), kind=NAMESPACE))
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert caught.value.message == (
        f'Namespace "ns" is invalid: [metadata.labels[{PREFIX}warn]: Invalid value: "x": must be one of privileged, '
        f'baseline, restricted, metadata.labels[{PREFIX}warn-version]: Invalid value: "1": must be "latest" or "v1.x"]'
    )


async def test_invalid_labels_that_are_stored_do_not_prevent_other_updates(plugin, write):
    stored = namespace(warn="x")
    await plugin.validate(write({**stored, "spec": {}}, old=stored, kind=NAMESPACE))
    with pytest.raises(ApiError, match='"y": must be one of'):
        await plugin.validate(write(namespace(warn="y"), old=stored, kind=NAMESPACE))


@pytest.fixture
def running(cluster, pod):
    """Pods that violate baseline: two of one controller, one without a controller."""
    owned = [{"uid": "u", "controller": True}]
    for name, spec, owners in (("b", SHARING, owned), ("a", SHARING, owned), ("c", {"hostNetwork": True}, [])):
        one = pod(name, **spec)
        one["metadata"]["ownerReferences"] = owners
        cluster.put(POD, one)


async def test_tightening_a_namespace_lists_its_pods_that_violate_the_standard(plugin, running, cluster, write, pod):
    cluster.put(POD, pod("d", hostPID=True, volumes=[{"name": "v", "hostPath": {}}]))
    attrs = write(namespace(enforce="baseline"), old=namespace(), kind=NAMESPACE)
    await plugin.validate(attrs)
    assert attrs.warnings == [
        'existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 2 other pods): host namespaces",
        "d: host namespaces, hostPath volumes",
    ]


@pytest.mark.parametrize(
    ("old", "new", "checked"),
    [
        ({"enforce": "restricted"}, {"enforce": "baseline"}, False),
        ({"enforce": "baseline"}, {"enforce": "baseline", "warn": "restricted"}, False),
        ({"enforce": "baseline"}, {"enforce": "privileged", "enforce_version": "v1.3"}, False),
        ({"enforce": "restricted"}, {"enforce": "baseline", "enforce_version": "v1.3"}, True),
        ({"enforce": "baseline"}, {"enforce": "restricted"}, True),
    ],
)
async def test_pods_are_checked_when_what_is_enforced_may_forbid_more(plugin, running, write, old, new, checked):
    attrs = write(namespace(**new), old=namespace(**old), kind=NAMESPACE)
    await plugin.validate(attrs)
    assert bool(attrs.warnings) is checked


class SlowClock(FakeClock):
    """Each reading of the clock is later than the last."""

    def monotonic(self) -> float:
        self._mono += 0.4
        return super().monotonic()


async def test_the_check_of_existing_pods_is_bounded_in_time_and_starts_with_one_pod_of_each_controller(pod):
    pods = [pod(name) for name in "abcde"]
    for obj in pods[:4]:
        obj["metadata"]["ownerReferences"] = [{"uid": "u", "controller": True}]
    assert [obj["metadata"]["name"] for obj in existing_pods.one_of_each_owner_first(pods)] == list("aebcd")
    assert await existing_pods.warnings("ns", Standard("baseline"), pods, SlowClock()) == [
        "new PodSecurity enforce level only checked against the first 3 of 5 existing pods"
    ]


def test_the_plugin_is_on_by_default_and_can_be_disabled(cluster):
    names = build(cluster).names
    assert names.index("TaintNodesByCondition") < names.index("PodSecurity") < names.index("Priority")
    assert "PodSecurity" not in build(cluster, disable=["PodSecurity"]).names
