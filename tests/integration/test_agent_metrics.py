"""A node's counters while pods are started, resized and terminated, with the names and label values of the
resize KEP.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.agent.runtimes.values import RuntimeFailure
from podfit.agent.server.usage import exposition
from podfit.agent.server.usage.usage import UsageReader
from podfit.api.registry.kinds import POD

DOCUMENTED = {"periodic_retry", "pod_resized", "pod_updated", "pods_added", "pods_removed"}
"""The values of retry_trigger in the KEP."""


def pod(name: str, cpu: str, command: str = "sleep 1d", **more: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": "64Mi"}, "limits": {"memory": "64Mi"}}
    container = {"name": "c", "image": "busybox:1", "command": ["sh", "-c", command], "resources": resources}
    spec = {"nodeName": "node1", "automountServiceAccountToken": False, "containers": [container], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def asking_for(**requests: str) -> dict[str, Any]:
    resources: dict[str, Any] = {"requests": requests}
    if "memory" in requests:
        resources["limits"] = {"memory": requests["memory"]}
    return {"spec": {"containers": [{"name": "c", "resources": resources}]}}


def value(node: TestNode, name: str, **labels: str) -> float:
    found = node.agent.metrics.registry.get_sample_value(name, labels)
    assert found is not None, f"{name} {labels} is not exported"
    return found


def triggers(node: TestNode) -> dict[str, float]:
    """How often a deferred resize was accepted, by the trigger of the retry."""
    name = "kubelet_pod_deferred_resize_accepted_total"
    family = next(item for item in node.agent.metrics.registry.collect() if f"{item.name}_total" == name)
    return {sample.labels["retry_trigger"]: sample.value for sample in family.samples}


async def test_a_resize_accepted_because_another_pod_ended_counts_as_pods_removed(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        node = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"})
        await cluster.client.create(POD, pod("other", "1", "sleep 30", restartPolicy="Never"))
        await cluster.client.create(POD, pod("p", "500m"))
        await node.quiet()
        await cluster.resize("p", asking_for(cpu="1500m"))
        await node.quiet()
        assert value(node, "kubelet_pod_pending_resizes", reason="deferred") == 1

        await node.pass_time(31)
        assert value(node, "kubelet_pod_pending_resizes", reason="deferred") == 0
        assert triggers(node) == {**dict.fromkeys(DOCUMENTED, 0), "pods_removed": 1}


async def test_a_resize_is_an_update_container_operation_of_the_runtime(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        node = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"})
        await cluster.client.create(POD, pod("p", "500m"))
        await node.quiet()
        for operation in ("run_podsandbox", "create_container", "start_container", "image_status"):
            assert value(node, "kubelet_runtime_operations_total", operation_type=operation) == 1, operation
        assert value(node, "kubelet_runtime_operations_total", operation_type="update_container") == 0

        await cluster.resize("p", asking_for(cpu="700m"))
        await node.quiet()
        assert value(node, "kubelet_runtime_operations_total", operation_type="update_container") == 1
        name = "kubelet_runtime_operations_duration_seconds_count"
        assert value(node, name, operation_type="update_container") == 1
        assert value(node, "kubelet_runtime_operations_errors_total", operation_type="update_container") == 0


async def test_a_resize_that_the_runtime_refuses_is_an_error_of_update_container(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        node = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"})
        await cluster.client.create(POD, pod("p", "500m"))
        await node.quiet()

        async def refuse(*_: Any) -> None:
            raise RuntimeFailure("the kernel refuses it")

        node.runtime.update_container = refuse  # type: ignore[method-assign]
        await cluster.resize("p", asking_for(memory="32Mi"))
        await node.quiet()
        assert value(node, "kubelet_runtime_operations_errors_total", operation_type="update_container") == 1
        assert value(node, "kubelet_pod_resize_duration_seconds_count", success="false") == 1


async def test_passes_over_a_pod_are_timed_by_what_they_are_for(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        node = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"})
        name = "kubelet_pod_worker_duration_seconds_count"
        kinds = ("create", "update", "sync", "kill", "terminated")
        assert [value(node, name, operation_type=kind) for kind in kinds] == [0] * 5

        await cluster.client.create(POD, pod("p", "500m"))
        await node.quiet()
        assert value(node, name, operation_type="create") > 0 == value(node, name, operation_type="update")

        await cluster.resize("p", asking_for(cpu="700m"))
        await node.quiet()
        assert value(node, name, operation_type="update") > 0 == value(node, name, operation_type="kill")

        await cluster.client.delete(POD, "default", "p")
        await node.pass_time(40)
        assert value(node, name, operation_type="kill") > 0


async def test_what_a_node_has_not_seen_yet_is_zero(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        node = await cluster.node()
        assert value(node, "kubelet_pod_infeasible_resizes_total", reason_detail="insufficient_node_allocatable") == 0
        assert value(node, "kubelet_pod_resize_duration_seconds_count", success="false") == 0
        asked = {"resource": "memory", "requirement": "limits", "operation": "decrease"}
        assert value(node, "kubelet_container_requested_resizes_total", **asked) == 0


async def test_a_kill_for_memory_is_counted_beyond_the_container_that_was_killed(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        node = await cluster.node(capacity={"cpu": "2", "memory": "4Gi"})
        body = pod("p", "500m")
        body["metadata"]["annotations"] = {"podfit.dev/fake-memory": "steps:16Mi@0,128Mi@30"}
        await cluster.client.create(POD, body)
        await node.quiet()
        assert await kills(node) == 0

        await node.pass_time(45)
        statuses = (await cluster.pod("p"))["status"]["containerStatuses"]
        assert statuses[0]["restartCount"] == 1
        assert await kills(node) == 1


async def kills(node: TestNode) -> float:
    sample = await UsageReader(node.agent, machine=False).read()
    page = exposition.cadvisor_page(sample, "/root", 1, 1)
    name = "podfit_container_oom_kills"
    (found,) = (
        entry for family in text_string_to_metric_families(page) if family.name == name for entry in family.samples
    )
    assert found.labels == {"namespace": "default", "pod": "p", "container": "c"}
    return float(found.value)
