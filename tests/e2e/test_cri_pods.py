"""Fields of a pod reach containerd: users, capabilities, sysctls, ports, parts of volumes, signals, handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec.structs import replace

from podfit.agent.runtimes.cri.pods.rotation import Rotation
from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from tests.support.containers.containerd import PAUSE_IMAGE, Containerd, missing

from .seedpods import Lab, container, exactly, pod, statuses

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("cri-pods"),
]
RUNTIME_CLASS = kind_named("RuntimeClass")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    options = {"runtime": "cri", "runtime_endpoint": containerd.endpoint, "scheduler": False}
    async with Lab(tmp_path_factory.mktemp("cri"), **options) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def cleared(lab: Lab) -> AsyncIterator[None]:
    yield
    await lab.clear()


async def said(lab: Lab, body: Object, command: str) -> str:
    seen = await lab.run(body)
    return (await lab.shell(seen, "c1", command)).strip()


async def test_the_node_names_its_runtime(lab: Lab, containerd: Containerd) -> None:
    node = await lab.client.get(kind_named("Node"), "", "n1")
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith(f"containerd://{containerd.version}")
    ready = next(condition for condition in node["status"]["conditions"] if condition["type"] == "Ready")
    assert ready["status"] == "True"


async def test_a_container_runs_as_the_user_and_groups_it_names(lab: Lab) -> None:
    body = pod("p", container("c1", securityContext={"runAsUser": 1000, "runAsGroup": 2000}))
    body["spec"]["securityContext"] = {"supplementalGroups": [3000], "fsGroup": 4000}
    assert await said(lab, body, "id -u; id -g; id -G") == "1000\n2000\n2000 3000 4000"


async def test_an_image_that_has_a_user_runs_as_it(lab: Lab) -> None:
    assert await said(lab, pod("p", container("c1", image="app:user")), "id -u") == "65534"


async def test_an_image_is_reported_under_the_runtimes_name_for_it(lab: Lab) -> None:
    seen = await lab.run(pod("p", container("c1", image="app:user")))
    assert seen["status"]["containerStatuses"][0]["image"] == "docker.io/library/app:user"


async def test_a_group_without_a_user_goes_with_the_images(lab: Lab) -> None:
    given = container("c1", image="app:user", securityContext={"runAsGroup": 2000})
    assert await said(lab, pod("p", given), "id -u; id -g") == "65534\n2000"


async def test_capabilities_are_added_and_dropped(lab: Lab) -> None:
    given = {"capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}}
    shown = await said(lab, pod("p", container("c1", securityContext=given)), "grep CapEff /proc/1/status")
    assert int(shown.split()[1], 16) == 1 << 12


async def test_escalation_is_forbidden_only_if_the_spec_says_so(lab: Lab) -> None:
    strict = container("c1", securityContext={"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True})
    shown = await said(lab, pod("p", strict), "grep NoNewPrivs /proc/1/status; touch /x 2>/dev/null || echo read-only")
    assert shown.split() == ["NoNewPrivs:", "1", "read-only"]
    assert (await said(lab, pod("q", container("c1")), "grep NoNewPrivs /proc/1/status")).split()[1] == "0"


async def test_the_default_seccomp_profile_is_applied_if_it_is_requested(lab: Lab) -> None:
    profile = {"seccompProfile": {"type": "RuntimeDefault"}}
    shown = await said(lab, pod("p", container("c1", securityContext=profile)), "grep Seccomp: /proc/1/status")
    assert shown.split()[1] == "2"


async def test_sysctls_and_hostname_are_the_pods(lab: Lab) -> None:
    body = pod("p", container("c1"), hostname="named")
    body["spec"]["securityContext"] = {"sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"}]}
    shown = await said(lab, body, "cat /proc/sys/net/ipv4/ip_unprivileged_port_start; hostname")
    assert shown.split() == ["80", "named"]


async def test_names_are_resolved_as_the_pod_says(lab: Lab) -> None:
    dns = {"nameservers": ["192.0.2.53"], "searches": ["example.test"], "options": [{"name": "ndots", "value": "2"}]}
    aliases = [{"ip": "192.0.2.7", "hostnames": ["db"]}]
    body = pod("p", container("c1"), dnsPolicy="None", dnsConfig=dns, hostAliases=aliases)
    shown = await said(lab, body, "cat /etc/resolv.conf /etc/hosts")
    ip = (await lab.get("p"))["status"]["podIP"]
    for line in ("nameserver 192.0.2.53", "search example.test", "options ndots:2", f"{ip}\tp", "192.0.2.7\tdb"):
        assert line in shown.splitlines()


async def test_pods_have_addresses_of_their_own_and_host_pods_the_hosts(lab: Lab) -> None:
    seen = await lab.run(pod("p", container("c1")), pod("q", container("c1")))
    other, status = await lab.get("q"), seen["status"]
    assert status["podIP"] != other["status"]["podIP"] and status["podIP"].startswith("10.201.")
    host = await lab.run(pod("h", container("c1"), hostNetwork=True))
    assert host["status"]["podIP"] == host["status"]["hostIP"]


async def test_containers_share_processes_only_if_they_are_to(lab: Lab) -> None:
    two = (container("c1"), container("c2", command="exec sleep 4321"))
    shared = await said(lab, pod("p", *two, shareProcessNamespace=True), "ps")
    assert "sleep 4321" in shared
    assert "sleep 4321" not in await said(lab, pod("q", *two), "ps")


async def test_part_of_a_volume_is_mounted(lab: Lab) -> None:
    volumes = [{"name": "v", "emptyDir": {}}]
    whole = container("c1", volumeMounts=[{"name": "v", "mountPath": "/v"}], command="mkdir /v/sub; exec sleep 1000")
    part = container("c2", volumeMounts=[{"name": "v", "mountPath": "/part", "subPath": "sub"}])
    seen = await lab.run(pod("p", whole, part, volumes=volumes))
    await lab.shell(seen, "c1", "echo here > /v/sub/file")
    assert await lab.shell(seen, "c2", "cat /part/file; ls /part") == "here\nfile\n"


async def test_mounts_of_parts_go_with_the_pod(lab: Lab) -> None:
    volumes = [{"name": "v", "emptyDir": {}}]
    part = container("c1", volumeMounts=[{"name": "v", "mountPath": "/part", "subPath": "sub"}])
    uid = (await lab.run(pod("p", part, volumes=volumes)))["metadata"]["uid"]
    assert f"subpaths/{uid}" in Path("/proc/self/mountinfo").read_text()
    await lab.delete("p")
    async with asyncio.timeout(30):
        while uid in lab.agent.records:
            await asyncio.sleep(0.01)
    assert uid not in Path("/proc/self/mountinfo").read_text()


async def test_an_image_is_pulled_if_its_policy_says_so(lab: Lab, containerd: Containerd) -> None:
    before = containerd.mirror.pulls.count("library/busybox:latest")
    await lab.run(pod("p", container("c1", image="busybox", imagePullPolicy="Always")))
    assert containerd.mirror.pulls.count("library/busybox:latest") > before
    assert any("Successfully pulled image" in message for message in await lab.events("p"))


async def test_the_image_of_sandboxes_is_never_removed_to_free_space(lab: Lab) -> None:
    pinned = [image.tags for image in await lab.agent.runtime.images() if image.pinned]
    assert pinned == [(PAUSE_IMAGE,)]


async def test_an_image_that_no_registry_has_is_an_error_with_the_registrys_reason(lab: Lab) -> None:
    await lab.create(pod("p", container("c1", image="absent:1")))

    def waits(seen: Object | None) -> bool:
        shown = statuses(seen).get("c1", {}) if seen is not None else {}
        return shown.get("state", {}).get("waiting", {}).get("reason") == "ImagePullBackOff"

    await lab.until("p", waits)
    assert any("absent:1: not found" in message for message in await lab.events("p"))


async def test_a_pod_with_an_unknown_runtime_handler_waits_with_the_reason(lab: Lab) -> None:
    meta = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "odd"}, "handler": "nobody"}
    await lab.client.create(RUNTIME_CLASS, meta)
    await lab.create(pod("p", container("c1"), runtimeClassName="odd"))
    async with asyncio.timeout(30):
        while not any('no runtime for "nobody" is configured' in message for message in await lab.events("p")):
            await asyncio.sleep(0.05)
    await lab.client.delete(RUNTIME_CLASS, "", "odd")


async def test_a_log_is_rotated_and_read_as_one(lab: Lab) -> None:
    talks = container(
        "c1", exactly("100m/64Mi"), "i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); done; exec sleep 1000"
    )
    seen = await lab.run(pod("p", talks))
    cid = statuses(seen)["c1"]["containerID"].partition("://")[2]
    runtime = lab.agent.runtime
    known = runtime._inventory.containers[cid]  # type: ignore[attr-defined]
    file = Path(known.kept.log_file)
    async with asyncio.timeout(30):
        while "line 399" not in file.read_text():
            await asyncio.sleep(0.02)
    known.kept = replace(known.kept, log_max_bytes=100)
    await Rotation(runtime._inventory).check()  # type: ignore[attr-defined]
    stream = await runtime.exec(cid, ["sh", "-c", "echo after > /proc/1/fd/1"])
    await stream.wait()
    await stream.close()
    async with asyncio.timeout(30):
        while not file.exists() or "after" not in file.read_text():
            await asyncio.sleep(0.02)
    rotated = [path for path in file.parent.iterdir() if path != file and path.name.startswith(file.name)]
    assert len(rotated) == 1 and "line 399" in rotated[0].read_text()
