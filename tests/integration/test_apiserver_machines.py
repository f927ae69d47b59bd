"""Pods with a virtual machine (`spec.virtualMachine`): defaults, validation, merging, resizing, status."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker, serving

PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
SIZE = {"requests": {"cpu": "1", "memory": "512Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}}


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    async with serving(tmp_path) as server:
        asker = Asker(server)
        await asker("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        yield asker


def machine(**more: Any) -> dict[str, Any]:
    return {"name": "guest", "image": "debian:12", "publicKey": "ssh-ed25519 AAAA", "resources": SIZE, **more}


async def create(ask: Asker, vm: Any, **spec: Any) -> tuple[int, Any]:
    return await ask("POST", PODS, {"metadata": {"name": "p"}, "spec": {"virtualMachine": vm, **spec}})


def complaints(status: dict[str, Any]) -> list[tuple[str, str]]:
    return [(cause["field"], cause["message"]) for cause in status["details"]["causes"]]


async def test_a_virtual_machine_gets_its_defaults(ask: Asker) -> None:
    code, pod = await create(ask, machine(resizePolicy=[{"resourceName": "cpu", "policy": "NoRestart"}]))
    assert code == 201
    vm = pod["spec"]["virtualMachine"]
    assert (vm["powerSpec"], vm["shutdownBehavior"], vm["imagePullPolicy"]) == ("Running", "stop", "IfNotPresent")
    assert vm["resourcesAllocated"] == SIZE["requests"]


async def test_one_container_mirrors_the_virtual_machine(ask: Asker) -> None:
    _, pod = await create(ask, machine(resizePolicy=[{"resourceName": "memory", "policy": "RestartContainer"}]))
    (container,) = pod["spec"]["containers"]
    assert (container["name"], container["image"], container["resources"]) == ("guest", "debian:12", SIZE)
    assert container["resizePolicy"] == [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    assert pod["status"]["qosClass"] == "Burstable"


async def test_containers_beside_a_virtual_machine_are_refused(ask: Asker) -> None:
    code, status = await create(ask, machine(), containers=[{"name": "c", "image": "i"}])
    assert code == 422
    expected = "Forbidden: containers and virtualMachine workloads in same pod"
    assert complaints(status) == [("containers,virtualMachine", expected)]


async def test_init_containers_beside_a_virtual_machine_are_refused(ask: Asker) -> None:
    code, status = await create(ask, machine(), initContainers=[{"name": "first", "image": "busybox"}])
    assert code == 422
    reason = "Forbidden: a pod with a virtual machine cannot have init containers"
    assert complaints(status) == [("spec.initContainers", reason)]


async def test_a_pod_that_was_read_can_be_created_again(ask: Asker) -> None:
    _, pod = await create(ask, machine())
    again = {"metadata": {"name": "q"}, "spec": pod["spec"]}
    code, made = await ask("POST", PODS, again)
    assert code == 201
    assert made["spec"]["virtualMachine"] == pod["spec"]["virtualMachine"]


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"name": ""}, "name", "Required value: virtual machine name cannot be empty"),
        ({"publicKey": ""}, "keyPairName", "Required value: KeyPairName and PublicKey can't be both empty"),
        (
            {"powerSpec": "Asleep"},
            "powerSpec",
            'Unsupported value: "Asleep": supported values: "Paused", "Running", "Shutdown", "Suspended"',
        ),
        (
            {"shutdownBehavior": "explode"},
            "shutdownBehavior",
            'Unsupported value: "explode": supported values: "stop", "terminate"',
        ),
        (
            {"resizePolicy": [{"resourceName": "cpu", "policy": "Restart"}]},
            "resizePolicy[0].policy",
            'Unsupported value: "Restart": supported values: "NoRestart", "RestartContainer"',
        ),
        (
            {"resizePolicy": [{"resourceName": "cpu", "policy": "NoRestart"}] * 2},
            "resizePolicy[1]",
            'Duplicate value: "cpu"',
        ),
        ({"userData": "QUFB" * 16_384}, "userData", "Too long: may not be more than 65535 bytes"),
        (
            {"resourcesAllocated": {"cpu": "7"}},
            "resourcesAllocated",
            "Forbidden: only the node may set what it has allocated",
        ),
        (
            {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
            "resources.requests",
            'Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
    ],
)
async def test_impossible_virtual_machines_are_refused(ask: Asker, change: Any, field: str, message: str) -> None:
    code, status = await create(ask, machine(**change))
    assert code == 422
    assert (f"spec.virtualMachine.{field}", message) in complaints(status)


@pytest.mark.parametrize("content", [MERGE, STRATEGIC])
async def test_resizing_the_virtual_machine_resizes_its_container(ask: Asker, content: str) -> None:
    await create(ask, machine())
    bigger = {"limits": {"memory": "2Gi"}}
    code, pod = await ask("PATCH", f"{PODS}/p/resize", {"spec": {"virtualMachine": {"resources": bigger}}}, content)
    assert code == 200
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2", "memory": "2Gi"}
    assert pod["metadata"]["generation"] == 2


async def test_resizing_the_container_resizes_the_virtual_machine(ask: Asker) -> None:
    await create(ask, machine())
    patch = {"spec": {"containers": [{"name": "guest", "resources": {"limits": {"memory": "2Gi"}}}]}}
    code, pod = await ask("PATCH", f"{PODS}/p/resize", patch, STRATEGIC)
    assert code == 200
    assert pod["spec"]["virtualMachine"]["resources"]["limits"] == {"cpu": "2", "memory": "2Gi"}


async def test_two_sizes_for_a_virtual_machine_and_its_container_are_refused(ask: Asker) -> None:
    await create(ask, machine())
    container = {"name": "guest", "resources": {"limits": {"memory": "3Gi"}}}
    sizes = {"virtualMachine": {"resources": {"limits": {"memory": "2Gi"}}}, "containers": [container]}
    code, status = await ask("PATCH", f"{PODS}/p/resize", {"spec": sizes}, STRATEGIC)
    assert code == 422
    ((field, message),) = complaints(status)
    assert field == "spec.virtualMachine" and 'differs from its container "guest"' in message


async def test_resources_do_not_change_through_the_pod_itself(ask: Asker) -> None:
    await create(ask, machine())
    patch = {"spec": {"virtualMachine": {"resources": {"limits": {"memory": "2Gi"}}}}}
    code, status = await ask("PATCH", f"{PODS}/p", patch, MERGE)
    assert code == 422
    assert status["details"]["causes"][0]["message"].startswith("Forbidden: pod updates may not change fields")


@pytest.mark.parametrize("content", [MERGE, STRATEGIC])
@pytest.mark.parametrize("dialect", ["2020", "2021", "v1.31"])
async def test_where_older_designs_apply_the_pod_itself_is_patched(ask: Asker, dialect: str, content: str) -> None:
    labels = {"podfit.dev/resize-dialect": dialect}
    await ask("POST", "/api/v1/namespaces", {"metadata": {"name": "old", "labels": labels}})
    await ask("POST", "/api/v1/namespaces/old/serviceaccounts", {"metadata": {"name": "default"}})
    pods = PODS.replace("default", "old")
    await ask("POST", pods, {"metadata": {"name": "p"}, "spec": {"virtualMachine": machine()}})
    bigger, taken = {"limits": {"memory": "2Gi"}}, {"cpu": "7"}
    patch = {"spec": {"virtualMachine": {"resources": bigger, "resourcesAllocated": taken}}}
    code, pod = await ask("PATCH", f"{pods}/p", patch, content)
    assert code == 200
    spec = pod["spec"]
    assert spec["virtualMachine"]["resources"]["limits"] == {"cpu": "2", "memory": "2Gi"}
    assert spec["containers"][0]["resources"] == spec["virtualMachine"]["resources"]
    assert spec["virtualMachine"]["resourcesAllocated"] == SIZE["requests"]
    below = {"spec": {"virtualMachine": {"resources": {"limits": {"memory": "100Mi"}}}}}
    code, status = await ask("PATCH", f"{pods}/p", below, content)
    assert (code, complaints(status)[0][0]) == (422, "spec.virtualMachine.resources.requests")


async def test_volumes_of_a_machine_in_a_template_are_merged_by_their_paths(ask: Asker) -> None:
    mounts = [{"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": "/w"}]
    volumes = [{"name": name, "emptyDir": {}} for name in "vw"] + DISKS
    spec = {"virtualMachine": machine(volumeMounts=mounts, volumeDevices=DEVICES), "volumes": volumes}
    template = {"metadata": {"labels": {"app": "vm"}}, "spec": spec}
    body = {"metadata": {"name": "s"}, "spec": {"selector": {"matchLabels": {"app": "vm"}}, "template": template}}
    sets = "/apis/apps/v1/namespaces/default/statefulsets"
    await ask("POST", sets, {**body, "spec": {**body["spec"], "serviceName": "s"}})
    changed = {
        "volumeMounts": [{"mountPath": "/w", "readOnly": True}, {"mountPath": "/v", "$patch": "delete"}],
        "volumeDevices": [{"devicePath": "/dev/root", "$patch": "delete"}],
    }
    patch = {"spec": {"template": {"spec": {"virtualMachine": changed}}}}
    code, made = await ask("PATCH", f"{sets}/s", patch, STRATEGIC)
    assert code == 200
    vm = made["spec"]["template"]["spec"]["virtualMachine"]
    assert vm["volumeMounts"] == [{"name": "w", "mountPath": "/w", "readOnly": True}]
    assert vm["volumeDevices"] == DEVICES[1:]


async def test_power_changes_through_the_pod_itself(ask: Asker) -> None:
    await create(ask, machine())
    code, pod = await ask("PATCH", f"{PODS}/p", {"spec": {"virtualMachine": {"powerSpec": "Paused"}}}, MERGE)
    assert (code, pod["spec"]["virtualMachine"]["powerSpec"]) == (200, "Paused")


@pytest.mark.parametrize("patch", [None, {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, {"name": "other"}])
async def test_a_pod_keeps_its_virtual_machine(ask: Asker, patch: Any) -> None:
    await create(ask, machine(), volumes=[{"name": "v", "emptyDir": {}}])
    _, before = await ask("GET", f"{PODS}/p")
    code, status = await ask("PATCH", f"{PODS}/p", {"spec": {"virtualMachine": patch}}, MERGE)
    _, after = await ask("GET", f"{PODS}/p")
    assert (code, after) == (422, before)
    assert patch is None or (f"spec.virtualMachine.{next(iter(patch))}", "Forbidden: may not be changed") in complaints(
        status
    )


async def test_the_manifest_can_be_put_again_with_another_image(ask: Asker) -> None:
    await create(ask, machine())
    body = {"metadata": {"name": "p"}, "spec": {"virtualMachine": machine(image="debian:13")}}
    _, stored = await ask("GET", f"{PODS}/p")
    for field in ("tolerations", "priority", "preemptionPolicy", "serviceAccountName", "volumes"):
        if field in stored["spec"]:
            body["spec"][field] = stored["spec"][field]
    code, pod = await ask("PUT", f"{PODS}/p", body)
    assert code == 200
    assert pod["spec"]["containers"][0]["image"] == "debian:13"


def reported(**state: Any) -> dict[str, Any]:
    one = {"name": "guest", "image": "debian:12", "imageID": "sha256:1", "containerID": "vm://7", "ready": True}
    one |= {"restartCount": 2, "state": state, "lastState": {}, "resources": SIZE}
    one["allocatedResources"] = {"cpu": "1", "memory": "768Mi"}
    ready = {"type": "ContainersReady", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"status": {"containerStatuses": [one], "conditions": [ready]}}


async def test_the_status_shows_the_virtual_machine(ask: Asker) -> None:
    await create(ask, machine())
    code, pod = await ask("PATCH", f"{PODS}/p/status", reported(running={}), MERGE)
    assert code == 200
    assert pod["status"]["virtualMachineStatus"] == {
        "name": "guest",
        "virtualMachineId": "vm://7",
        "imageId": "sha256:1",
        "image": "debian:12",
        "state": "active",
        "powerState": "running",
        "ready": True,
        "restartCount": 2,
        "resources": SIZE,
    }
    conditions = {condition["type"]: condition["status"] for condition in pod["status"]["conditions"]}
    assert conditions["VirtualMachineReady"] == "True"


async def test_a_virtual_machine_that_never_ran_is_shown_as_not_ready(ask: Asker) -> None:
    await create(ask, machine())
    waiting = reported(waiting={"reason": "ContainerCreating"})
    waiting["status"]["containerStatuses"][0] |= {"ready": False, "restartCount": 0}
    _, pod = await ask("PATCH", f"{PODS}/p/status", waiting, MERGE)
    shown = pod["status"]["virtualMachineStatus"]
    assert (shown["ready"], shown["restartCount"], shown["powerState"]) == (False, 0, "nostate")


async def test_allocated_resources_are_shown_and_are_not_a_change_of_the_spec(ask: Asker) -> None:
    await create(ask, machine())
    _, pod = await ask("PATCH", f"{PODS}/p/status", reported(running={}), MERGE)
    assert pod["spec"]["virtualMachine"]["resourcesAllocated"] == {"cpu": "1", "memory": "768Mi"}
    assert pod["metadata"]["generation"] == 1


async def test_a_power_state_that_the_node_reports_stays_until_the_machine_changes(ask: Asker) -> None:
    await create(ask, machine())
    await ask("PATCH", f"{PODS}/p/status", reported(running={}), MERGE)
    paused = {"status": {"virtualMachineStatus": {"name": "guest", "state": "paused", "powerState": "paused"}}}
    await ask("PATCH", f"{PODS}/p/status", paused, MERGE)
    _, pod = await ask("PATCH", f"{PODS}/p/status", {"status": {"message": "m"}}, MERGE)
    assert pod["status"]["virtualMachineStatus"]["powerState"] == "paused"
    _, pod = await ask("PATCH", f"{PODS}/p/status", reported(terminated={"exitCode": 1}), MERGE)
    assert pod["status"]["virtualMachineStatus"]["powerState"] == "crashed"


async def test_a_template_keeps_the_virtual_machine_alone(ask: Asker) -> None:
    template = {"metadata": {"labels": {"app": "vm"}}, "spec": {"virtualMachine": machine()}}
    body = {
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"app": "vm"}}, "template": template},
    }
    code, made = await ask("POST", "/apis/apps/v1/namespaces/default/deployments", body)
    assert code == 201
    assert made["spec"]["template"]["spec"]["containers"] is None


async def test_a_virtual_machine_runs_in_class_vm_where_there_is_one(ask: Asker) -> None:
    overhead = {"podFixed": {"memory": "128Mi"}}
    made = {"metadata": {"name": "vm"}, "handler": "vm", "overhead": overhead}
    await ask("POST", "/apis/node.k8s.io/v1/runtimeclasses", made)
    _, pod = await create(ask, machine())
    assert (pod["spec"]["runtimeClassName"], pod["spec"]["overhead"]) == ("vm", overhead["podFixed"])


DISKS = [
    {"name": "root", "hostPath": {"path": "/dev/sdb", "type": "BlockDevice"}},
    {"name": "data", "hostPath": {"path": "/srv/data.raw", "type": "File"}},
]
DEVICES = [{"name": "root", "devicePath": "/dev/root"}, {"name": "data", "devicePath": "/dev/data"}]
NO_BLOCK = 'Invalid value: "data": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode'


async def test_a_device_and_a_file_of_the_node_are_disks_of_a_virtual_machine(ask: Asker) -> None:
    code, pod = await create(ask, machine(volumeDevices=DEVICES, bootVolume="root"), volumes=DISKS)
    assert code == 201
    assert pod["spec"]["containers"][0]["volumeDevices"] == DEVICES


@pytest.mark.parametrize("source", [{"emptyDir": {}}, {"hostPath": {"path": "/srv", "type": "Directory"}}])
async def test_a_volume_without_a_disk_is_not_a_block_volume(ask: Asker, source: Any) -> None:
    code, status = await create(
        ask, machine(volumeDevices=DEVICES[1:]), volumes=[{"name": "data", **source}], containers=[]
    )
    assert code == 422
    assert complaints(status) == [("spec.virtualMachine.volumeDevices[0].name", NO_BLOCK)]


async def test_a_virtual_machine_boots_from_one_of_its_block_volumes_only(ask: Asker) -> None:
    code, status = await create(ask, machine(volumeDevices=DEVICES[1:], bootVolume="root"), volumes=DISKS)
    assert code == 422
    assert complaints(status) == [("spec.virtualMachine.bootVolume", 'Not found: "root"')]


@pytest.mark.parametrize(("runtime", "expected"), [("vm", 201), ("other", 422)])
async def test_disks_of_the_node_are_for_virtual_machines_alone(ask: Asker, runtime: str, expected: int) -> None:
    await ask("POST", "/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": runtime}, "handler": "h"})
    container = {"name": "c", "image": "i", "volumeDevices": DEVICES[1:]}
    spec = {"runtimeClassName": runtime, "volumes": DISKS[1:], "containers": [container]}
    code, status = await ask("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
    assert code == expected
    if code != 201:
        assert complaints(status) == [("spec.containers[0].volumeDevices[0].name", NO_BLOCK)]
