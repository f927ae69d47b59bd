"""Single plugins, beyond the recordings."""

from __future__ import annotations

import asyncio
from copy import deepcopy

import pytest

from podfit.api.quotas import usage
from podfit.api.registry.kinds import NAMESPACE, NODE, kind_named
from podfit.api.status import ApiError
from podfit.apiserver.admission.chain import build
from podfit.apiserver.admission.limits.limit_ranger import LimitRanger
from podfit.apiserver.admission.limits.resource_quota import RESOURCE_QUOTA, ResourceQuota
from podfit.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from podfit.apiserver.admission.nodes.node_labels import forbidden_labels
from podfit.apiserver.admission.nodes.node_restriction import NodeRestriction
from podfit.apiserver.admission.nodes.taint_nodes_by_condition import TaintNodesByCondition
from podfit.apiserver.admission.pods.priority import PRIORITY_CLASS, Priority
from podfit.apiserver.admission.pods.runtime_class import RUNTIME_CLASS, RuntimeClass
from podfit.apiserver.admission.pods.service_account import ServiceAccount
from podfit.apiserver.request import User
from podfit.kit.clock import FakeClock

LIMIT_RANGE, ACCOUNT, CLAIM = (
    kind_named("LimitRange"),
    kind_named("ServiceAccount"),
    kind_named("PersistentVolumeClaim"),
)
NODE_USER = User("system:node:n1", ("system:nodes", "system:authenticated"))


def quota(cluster, name: str = "q", used: dict[str, str] | None = None, **hard: str) -> None:
    status = {"hard": hard, "used": used or dict.fromkeys(hard, "0")}
    cluster.put(
        RESOURCE_QUOTA, {"metadata": {"name": name, "namespace": "ns"}, "spec": {"hard": hard}, "status": status}
    )


async def test_chain_follows_the_order_of_kubernetes_and_the_names_given(cluster):
    names = build(cluster).names
    assert names[0] == "NamespaceLifecycle" and names[-1] == "ResourceQuota"
    assert names.index("ServiceAccount") < names.index("NodeRestriction") < names.index("Priority")
    assert "PodResizeValidator" not in names
    assert "PodResizeValidator" in build(cluster, enable=["PodResizeValidator"]).names
    assert "LimitRanger" not in build(cluster, disable=["LimitRanger"]).names
    with pytest.raises(ValueError, match="Nope"):
        build(cluster, enable=["Nope"])


async def test_system_namespaces_may_not_be_deleted(cluster, write):
    attrs = write(None, old=cluster.get(NAMESPACE, "", "kube-system"), kind=NAMESPACE, operation="DELETE")
    with pytest.raises(ApiError, match='namespaces "kube-system" is forbidden: this namespace may not be deleted'):
        await NamespaceLifecycle(cluster).admit(attrs)


async def test_first_pods_of_a_namespace_wait_for_its_account(cluster, write, pod):
    cluster.drop(ACCOUNT, "ns", "default")
    clock = FakeClock()
    attrs = write(pod())
    waiting = asyncio.create_task(ServiceAccount(cluster, clock).admit(attrs))
    await clock.advance(0.3)
    assert not waiting.done()
    cluster.put(ACCOUNT, {"metadata": {"name": "default", "namespace": "ns"}, "imagePullSecrets": [{"name": "s"}]})
    await clock.advance(0.2)
    await waiting
    assert attrs.object["spec"]["serviceAccountName"] == "default"
    assert attrs.object["spec"]["imagePullSecrets"] == [{"name": "s"}]


async def test_account_that_does_not_exist_is_refused_in_kubernetes_words(cluster, write, pod):
    with pytest.raises(ApiError) as caught:
        await ServiceAccount(cluster).admit(write(pod(serviceAccountName="other")))
    assert caught.value.message == (
        'pods "p" is forbidden: error looking up service account ns/other: serviceaccount "other" not found'
    )


async def test_mounted_path_and_opt_out_prevent_the_token(cluster, write, pod):
    opted_out = write(pod(automountServiceAccountToken=False))
    await ServiceAccount(cluster).admit(opted_out)
    assert "volumes" not in opted_out.object["spec"]
    mounted = write(pod())
    mount = {"name": "mine", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    mounted.object["spec"]["containers"][0]["volumeMounts"] = [mount]
    await ServiceAccount(cluster).admit(mounted)
    assert "volumes" not in mounted.object["spec"]


async def test_token_is_mounted_into_containers_added_later_without_a_second_volume(cluster, write, pod):
    attrs = write(pod("p", {}))
    plugin = ServiceAccount(cluster)
    await plugin.admit(attrs)
    attrs.object["spec"]["containers"].append({"name": "late"})
    await plugin.admit(attrs)
    spec = attrs.object["spec"]
    assert len(spec["volumes"]) == 1
    assert {row["volumeMounts"][0]["name"] for row in spec["containers"]} == {spec["volumes"][0]["name"]}


async def test_mirror_pod_may_not_name_accounts_or_secrets(cluster, write, pod):
    mirror = pod(serviceAccountName="default")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    with pytest.raises(ApiError, match="a mirror pod may not reference service accounts"):
        await ServiceAccount(cluster).validate(write(mirror))
    del mirror["spec"]["serviceAccountName"]
    mirror["spec"]["volumes"] = [{"name": "v", "secret": {"secretName": "s"}}]
    with pytest.raises(ApiError, match="a mirror pod may not reference secrets"):
        await ServiceAccount(cluster).validate(write(mirror))


async def test_second_default_priority_class_is_refused(cluster, write):
    cluster.put(PRIORITY_CLASS, {"metadata": {"name": "a"}, "value": 1, "globalDefault": True})
    new = {"metadata": {"name": "b"}, "value": 2, "globalDefault": True}
    with pytest.raises(ApiError, match="PriorityClass a is already marked as default. Only one default can exist"):
        await Priority(cluster).validate(write(new, kind=PRIORITY_CLASS))
    again = {"metadata": {"name": "a"}, "value": 1, "globalDefault": True}
    await Priority(cluster).validate(write(again, kind=PRIORITY_CLASS, old=again))


async def test_runtime_class_sets_overhead_and_refuses_another(cluster, write, pod):
    cluster.put(
        RUNTIME_CLASS,
        {
            "metadata": {"name": "vm"},
            "handler": "vm",
            "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
            "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": [{"key": "vm", "operator": "Exists"}]},
        },
    )
    attrs = write(pod(runtimeClassName="vm"))
    await RuntimeClass(cluster).admit(attrs)
    assert attrs.object["spec"]["overhead"] == {"cpu": "250m", "memory": "120Mi"}
    assert attrs.object["spec"]["nodeSelector"] == {"vm": "yes"}
    await RuntimeClass(cluster).validate(attrs)
    with pytest.raises(ApiError, match="Pod's Overhead doesn't match RuntimeClass's defined Overhead"):
        await RuntimeClass(cluster).admit(write(pod(runtimeClassName="vm", overhead={"cpu": "1"})))
    with pytest.raises(ApiError, match="Pod Overhead set without corresponding RuntimeClass"):
        await RuntimeClass(cluster).validate(write(pod(overhead={"cpu": "1"})))
    with pytest.raises(ApiError, match='pod rejected: RuntimeClass "none" not found'):
        await RuntimeClass(cluster).admit(write(pod(runtimeClassName="none")))


async def test_new_node_is_tainted_once(cluster, write):
    attrs = write({"metadata": {"name": "n1"}}, kind=NODE)
    await TaintNodesByCondition().admit(attrs)
    await TaintNodesByCondition().admit(attrs)
    assert attrs.object["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


async def test_defaults_on_resize_leave_the_stored_pod_alone(cluster, write, pod):
    item = {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}}
    cluster.put(LIMIT_RANGE, {"metadata": {"name": "l", "namespace": "ns"}, "spec": {"limits": [item]}})
    old = pod()
    before = deepcopy(old)
    new = dict(old)
    attrs = write(new, old=old, subresource="resize")
    await LimitRanger(cluster).admit(attrs)
    assert attrs.object["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "500m"}
    assert old == before


async def test_pod_that_is_going_away_is_not_held_to_limits(cluster, write, pod):
    item = {"type": "Container", "max": {"cpu": "1"}}
    cluster.put(LIMIT_RANGE, {"metadata": {"name": "l", "namespace": "ns"}, "spec": {"limits": [item]}})
    old = pod("p", {"limits": {"cpu": "2"}})
    with pytest.raises(ApiError, match="maximum cpu usage per Container is 1, but limit is 2"):
        await LimitRanger(cluster).validate(write(deepcopy(old), old=old, subresource="resize"))
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    await LimitRanger(cluster).validate(write(deepcopy(old), old=old, subresource="resize"))


async def test_claims_are_held_to_their_own_limits(cluster, write):
    item = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}
    cluster.put(LIMIT_RANGE, {"metadata": {"name": "l", "namespace": "ns"}, "spec": {"limits": [item]}})
    claim = {"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": "3Gi"}}}}
    with pytest.raises(ApiError, match="maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"):
        await LimitRanger(cluster).validate(write(claim, kind=CLAIM))


async def test_node_may_set_its_own_labels_only():
    assert forbidden_labels({"node.kubernetes.io/x": "1", "app": "y", "kubernetes.io/os": "linux"}, {}) == []
    assert forbidden_labels({}, {"node-role.kubernetes.io/control-plane": ""}) == [
        "node-role.kubernetes.io/control-plane"
    ]
    assert forbidden_labels({"a.k8s.io/b": "1"}, {"a.k8s.io/b": "1"}) == []


async def test_node_gets_tokens_for_its_own_pods_only(cluster, write, pod):
    projected = {
        "sources": [{"serviceAccountToken": {"path": "token"}}, {"serviceAccountToken": {"audience": "vault"}}]
    }
    volumes = [{"name": "v", "projected": projected}]
    stored = cluster.put(kind_named("Pod"), pod("mine", nodeName="n1", volumes=volumes))
    uid = stored["metadata"]["uid"]
    plugin = NodeRestriction(cluster)

    def request(*audiences: str, **ref: str):
        body = {"metadata": {}, "spec": {"boundObjectRef": ref or None, "audiences": list(audiences)}}
        return write(body, kind=ACCOUNT, name="default", subresource="token", operation="CREATE", user=NODE_USER)

    await plugin.admit(request(apiVersion="v1", kind="Pod", name="mine", uid=uid))
    await plugin.admit(request("vault", apiVersion="v1", kind="Pod", name="mine", uid=uid))
    with pytest.raises(ApiError, match='audience "bank" not found in pod spec volume'):
        await plugin.admit(request("bank", apiVersion="v1", kind="Pod", name="mine", uid=uid))
    with pytest.raises(ApiError, match="node requested token not bound to a pod"):
        await plugin.admit(request())
    cluster.put(kind_named("Pod"), {**stored, "spec": {**stored["spec"], "nodeName": "n2"}})
    with pytest.raises(ApiError, match="bound to a pod scheduled on a different node"):
        await plugin.admit(request(apiVersion="v1", kind="Pod", name="mine", uid=uid))


async def test_burst_of_creations_is_charged_exactly_and_in_few_writes(cluster, write, pod):
    quota(cluster, pods="30", cpu="2")
    plugin = ResourceQuota(cluster)

    async def create(number: int) -> bool:
        try:
            await plugin.validate(write(pod(f"p{number}", {"requests": {"cpu": "100m"}})))
        except ApiError as error:
            assert "exceeded quota: q, requested: cpu=100m" in error.message
            return False
        return True

    admitted = await asyncio.gather(*(create(number) for number in range(50)))
    assert sum(admitted) == 20
    status = cluster.get(RESOURCE_QUOTA, "ns", "q")["status"]
    assert status["used"] == {"cpu": "2", "pods": "20"}
    assert cluster.writes <= 2


async def test_quota_changed_meanwhile_is_read_again(cluster, write, pod):
    quota(cluster, cpu="1")
    interfered = []

    def interfere() -> None:
        if not interfered:
            interfered.append(True)
            quota(cluster, used={"cpu": "950m"}, cpu="1")

    cluster.before_write = interfere
    with pytest.raises(ApiError, match="used: cpu=950m, limited: cpu=1"):
        await ResourceQuota(cluster).validate(write(pod("p", {"requests": {"cpu": "100m"}})))


async def test_dry_run_is_checked_but_not_charged(cluster, write, pod):
    quota(cluster, cpu="1")
    await ResourceQuota(cluster).validate(write(pod("p", {"requests": {"cpu": "1"}}), dry_run=True))
    assert cluster.get(RESOURCE_QUOTA, "ns", "q")["status"]["used"] == {"cpu": "0"}
    with pytest.raises(ApiError):
        await ResourceQuota(cluster).validate(write(pod("p", {"requests": {"cpu": "2"}}), dry_run=True))


async def test_quota_whose_usage_is_not_known_yet_refuses(cluster, write, pod):
    cluster.put(
        RESOURCE_QUOTA,
        {
            "metadata": {"name": "q", "namespace": "ns"},
            "spec": {"hard": {"pods": "1"}},
            "status": {"hard": {"pods": "1"}},
        },
    )
    with pytest.raises(ApiError, match='pods "p" is forbidden: status unknown for quota: q, resources: pods'):
        await ResourceQuota(cluster).validate(write(pod()))


async def test_one_quota_that_is_full_charges_none(cluster, write, pod):
    quota(cluster, "a", pods="5")
    quota(cluster, "b", cpu="1")
    with pytest.raises(ApiError, match="exceeded quota: b"):
        await ResourceQuota(cluster).validate(write(pod("p", {"requests": {"cpu": "2"}})))
    assert cluster.get(RESOURCE_QUOTA, "ns", "a")["status"]["used"] == {"pods": "0"}


async def test_priority_scope_selects_by_class(cluster, write, pod):
    quota(cluster, pods="0")
    stored = cluster.get(RESOURCE_QUOTA, "ns", "q")
    expression = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    stored["spec"]["scopeSelector"] = {"matchExpressions": [expression]}
    await ResourceQuota(cluster).validate(write(pod(priorityClassName="low")))
    with pytest.raises(ApiError, match="exceeded quota: q, requested: pods=1"):
        await ResourceQuota(cluster).validate(write(pod(priorityClassName="high")))


async def test_deadline_set_later_moves_the_pod_under_another_quota(cluster, write, pod):
    quota(cluster, cpu="100m")
    cluster.get(RESOURCE_QUOTA, "ns", "q")["spec"]["scopes"] = ["Terminating"]
    plugin = ResourceQuota(cluster)
    old = pod("p", {"requests": {"cpu": "200m"}})
    relabelled = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    await plugin.validate(write(relabelled, old=old))
    ending = {**old, "spec": {**old["spec"], "activeDeadlineSeconds": 5}}
    with pytest.raises(ApiError, match="exceeded quota: q, requested: cpu=200m, used: cpu=0, limited: cpu=100m"):
        await plugin.validate(write(ending, old=old))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"type": "ClusterIP", "ports": [{"port": 1}]}, {"services": "1"}),
        ({"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]}, {"services": "1", "services.nodeports": "2"}),
        (
            {"type": "LoadBalancer", "ports": [{"port": 1}], "allocateLoadBalancerNodePorts": False},
            {"services": "1", "services.nodeports": "0", "services.loadbalancers": "1"},
        ),
    ],
)
async def test_services_are_counted_by_type(spec, expected):
    used = usage("", "services", {"metadata": {"name": "s"}, "spec": spec})
    assert {name: str(amount) for name, amount in used.items() if not name.startswith("count/")} == expected


async def test_claims_are_counted_by_storage_class():
    spec = {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}
    used = usage("", "persistentvolumeclaims", {"spec": spec, "status": {"allocatedResources": {"storage": "2Gi"}}})
    assert str(used["requests.storage"]) == "2Gi"
    assert str(used["fast.storageclass.storage.k8s.io/requests.storage"]) == "2Gi"
    assert str(used["fast.storageclass.storage.k8s.io/persistentvolumeclaims"]) == "1"
