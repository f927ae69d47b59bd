"""Less common fields of a pod on containerd: ports of the node, signals, profiles, secrets, devices, debugging."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, kind_named
from podfit.apiserver.strategy.gates import pods as gates
from podfit.client.rest import STRATEGIC
from tests.support.containers.containerd import Containerd, missing
from tests.support.containers.images import busybox
from tests.support.containers.registry import LoopbackRegistry

from .seedpods import Lab, container, pod, statuses

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("cri-features"),
]
PATIENCE_S = 60.0


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    options = {"runtime": "cri", "runtime_endpoint": containerd.endpoint, "scheduler": False}
    async with Lab(tmp_path_factory.mktemp("cri"), **options) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def cleared(lab: Lab) -> AsyncIterator[None]:
    yield
    await lab.clear()


def waiting(seen: Object | None, name: str = "c1") -> Object:
    shown = statuses(seen).get(name, {}) if seen is not None else {}
    return dict(shown.get("state", {}).get("waiting") or {})


async def test_a_port_of_the_node_leads_to_the_pod(lab: Lab, containerd: Containerd) -> None:
    port = random.randint(20000, 30000)
    serve = "mkdir /www; echo here > /www/index.html; exec httpd -f -p 8080 -h /www"
    await lab.run(pod("p", container("c1", command=serve, ports=[{"containerPort": 8080, "hostPort": port}])))

    async def answer() -> bytes:
        reader, writer = await asyncio.open_connection(containerd.node_address, port)
        writer.write(b"GET /index.html HTTP/1.0\r\n\r\n")
        try:
            return await reader.read()
        finally:
            writer.close()

    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                if (await answer()).endswith(b"here\n"):
                    return
            except OSError:
                await asyncio.sleep(0.05)  # its server does not listen yet


TRAPS = "trap 'exit 5' USR1; trap 'exit 6' TERM; touch /ready; while :; do sleep 0.05; done"


@pytest.mark.parametrize(
    ("image", "signal", "code"), [("app:signal", "", 5), ("busybox", "SIGUSR1", 5), ("app:signal", "SIGTERM", 6)]
)
async def test_a_container_is_stopped_by_its_signal(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, image: str, signal: str, code: int
) -> None:
    # As an API server with the gate ContainerStopSignals, which is off by default.
    monkeypatch.setattr(gates, "drop_from_spec", lambda *_: None)
    lifecycle = {"lifecycle": {"stopSignal": signal}} if signal else {}
    body = pod("p", container("c1", command=TRAPS, image=image, **lifecycle), terminationGracePeriodSeconds=60)
    body["spec"]["os"] = {"name": "linux"}
    seen = await lab.run(body)
    await lab.shell(seen, "c1", "until [ -e /ready ]; do sleep 0.01; done")
    cid = statuses(seen)["c1"]["containerID"].partition("://")[2]
    await lab.agent.runtime.stop_container(cid, PATIENCE_S)
    state = await lab.agent.runtime.container(cid)
    assert state is not None and state.exit_code == code


async def test_an_apparmor_profile_that_cannot_be_applied_keeps_the_container_from_running(lab: Lab) -> None:
    profile = {"appArmorProfile": {"type": "Localhost", "localhostProfile": "absent"}}
    await lab.create(pod("p", container("c1", securityContext=profile)))

    def refused(seen: Object | None) -> bool:
        return "apparmor" in waiting(seen).get("message", "").lower()

    await lab.until("p", refused, patience_s=PATIENCE_S)


async def test_a_seccomp_profile_of_the_node_is_applied(lab: Lab) -> None:
    folder = lab.agent.config.seccomp_dir
    folder.mkdir(parents=True, exist_ok=True)
    rules = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir"], "action": "SCMP_ACT_ERRNO"}]}
    (folder / "no-folders.json").write_text(json.dumps(rules))
    profile = {"seccompProfile": {"type": "Localhost", "localhostProfile": "no-folders.json"}}
    seen = await lab.run(pod("p", container("c1", securityContext=profile)))
    assert (await lab.shell(seen, "c1", "mkdir /x 2>&1 || true")).endswith("Operation not permitted\n")


async def test_a_seccomp_profile_that_is_absent_keeps_the_container_from_running(lab: Lab) -> None:
    profile = {"seccompProfile": {"type": "Localhost", "localhostProfile": "absent.json"}}
    await lab.create(pod("p", container("c1", securityContext=profile)))
    await lab.until("p", lambda seen: "absent.json" in waiting(seen).get("message", ""), patience_s=PATIENCE_S)


async def test_a_private_image_is_pulled_with_the_pods_secret(lab: Lab, containerd: Containerd) -> None:
    async with LoopbackRegistry(listener=socket.create_server((containerd.host_address, 0))) as registry:
        registry.users["carol"] = "s3cret"
        place = containerd.folder / "certs.d" / registry.host
        place.mkdir(parents=True)
        url = f"http://{registry.host}"
        (place / "hosts.toml").write_text(f'server = "{url}"\n[host."{url}"]\n  capabilities = ["pull", "resolve"]\n')
        registry.push("team/app:1", busybox())
        image = f"{registry.host}/team/app:1"
        await lab.create(pod("open", container("c1", image=image)))
        await lab.until("open", lambda seen: waiting(seen).get("reason") == "ImagePullBackOff", patience_s=PATIENCE_S)
        assert any("401" in event or "authoriz" in event for event in await lab.events("open", "Failed"))
        await lab.client.create(kind_named("Secret"), secret("pull", registry.host, "carol:s3cret"))
        body = pod("p", container("c1", image=image), imagePullSecrets=[{"name": "pull"}])
        await lab.create(body)
        await lab.until(
            "p", lambda seen: "running" in statuses(seen).get("c1", {}).get("state", {}), patience_s=PATIENCE_S
        )


def runs(seen: Object | None) -> bool:
    return seen is not None and "running" in statuses(seen).get("c1", {}).get("state", {})


def secret(name: str, host: str, user: str) -> Object:
    auths = {"auths": {host: {"auth": base64.b64encode(user.encode()).decode()}}}
    data = {".dockerconfigjson": base64.b64encode(json.dumps(auths).encode()).decode()}
    meta = {"name": name, "namespace": "default"}
    kind = "kubernetes.io/dockerconfigjson"
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": kind, "data": data}


async def test_a_privileged_container_has_the_nodes_devices(lab: Lab) -> None:
    shown = {}
    for name, privileged in (("plain", False), ("strong", True)):
        seen = await lab.run(pod(name, container("c1", securityContext={"privileged": privileged})))
        shown[name] = (await lab.shell(seen, "c1", "ls /dev")).split()
    assert "kmsg" not in shown["plain"] and "kmsg" in shown["strong"]


async def test_a_container_added_to_debug_a_pod_sees_the_processes_of_its_target(lab: Lab) -> None:
    await lab.run(pod("p", container("c1", command="exec sleep 4321")))
    look: dict[str, Any] = {"name": "look", "image": "busybox", "command": ["sleep", "1000"]}
    look["targetContainerName"] = "c1"
    added = {"spec": {"ephemeralContainers": [look]}}
    await lab.client.patch(POD, "default", "p", added, "ephemeralcontainers", STRATEGIC)

    def added_runs(seen: Object | None) -> bool:
        shown = (seen or {"status": {}})["status"].get("ephemeralContainerStatuses") or [{"state": {}}]
        return "running" in shown[0]["state"]

    seen = await lab.until("p", added_runs, patience_s=PATIENCE_S)
    shown = seen["status"]["ephemeralContainerStatuses"][0]
    inside = {"status": {"containerStatuses": [shown]}}
    assert "sleep 4321" in await lab.shell(inside, "look", "ps")


async def test_a_pod_with_users_of_its_own_is_refused_where_the_runtime_has_none(lab: Lab) -> None:
    if any(handler.user_namespaces for handler in lab.agent.runtime.handlers):
        pytest.skip("this runtime has user namespaces")
    await lab.create(pod("p", container("c1"), hostUsers=False))
    async with asyncio.timeout(PATIENCE_S):
        while not any("user namespaces" in event for event in await lab.events("p", "FailedCreatePodSandBox")):
            await asyncio.sleep(0.05)
    assert not Path(f"/sys/fs/cgroup/memory{lab.group(await lab.get('p'))}").exists()
