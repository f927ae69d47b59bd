"""Images from a user's view: a pod runs on its pulled or loaded image, or reports why it cannot; `podfit image`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import KUBECTL, Running, eventually, real_runtime
from tests.support.containers.images import busybox, docker_archive, oci_archive
from tests.support.containers.registry import Fault, LoopbackRegistry


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    if KUBECTL is None:
        pytest.skip("kubectl is not installed")
    if real_runtime() != "process":
        pytest.skip("the process runtime cannot run here")
    running = Running(tmp_path_factory.mktemp("up"), "--node-name", "n1", "--node-cpu", "4", "--stop-pods")
    try:
        yield running.start()
    finally:
        running.stop()


@pytest.fixture(scope="module")
def registry() -> Iterator[LoopbackRegistry]:
    """Runs beside the test, which waits for commands."""
    served, ready, end = LoopbackRegistry(), threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with served:
            ready.set()
            await end.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(10)
    yield served
    loop.call_soon_threadsafe(end.set)
    thread.join()


def podfit(up: Running, *words: str, fails: bool = False) -> str:
    command = [sys.executable, "-m", "podfit.cli.main", *words, "--data-dir", str(up.folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr if fails else done.stdout


def waiting(up: Running, name: str) -> dict[str, Any]:
    statuses = up.json("get", "pod", name)["status"].get("containerStatuses") or [{}]
    found: dict[str, Any] = (statuses[0].get("state") or {}).get("waiting") or {}
    return found


def said(up: Running, name: str) -> list[tuple[str, str]]:
    found = up.json("get", "events", "--field-selector", f"involvedObject.name={name}")["items"]
    return [(event["reason"], event["message"]) for event in found]


def ready(up: Running, name: str) -> dict[str, Any]:
    up.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")
    status: dict[str, Any] = up.json("get", "pod", name)["status"]["containerStatuses"][0]
    return status


def test_a_pulled_image_is_what_runs(up: Running, registry: LoopbackRegistry) -> None:
    image = busybox({"Cmd": ["sh", "-c", "cat /which; sleep 1000"]}, which=b"pulled\n")
    name = registry.push("team/pulled:1", image)
    up.kubectl("run", "pulled", f"--image={name}")
    status = ready(up, "pulled")
    assert status["imageID"] == f"{registry.host}/team/pulled@{image.digest}"
    assert eventually(lambda: up.kubectl("logs", "pulled"), "its output") == "pulled\n"
    assert up.kubectl("exec", "pulled", "--", "cat", "/which") == "pulled\n"
    reasons = dict(said(up, "pulled"))
    assert reasons["Pulling"] == f'Pulling image "{name}"'
    assert reasons["Pulled"].startswith(f'Successfully pulled image "{name}" in ')
    assert reasons["Pulled"].endswith(f"Image size: {sum(map(len, image.blobs.values()))} bytes.")


def test_a_loaded_image_is_what_runs(up: Running, tmp_path: Path) -> None:
    image = busybox(which=b"loaded\n")
    printed = podfit(up, "image", "load", str(docker_archive(tmp_path / "x.tar", "loaded:1", image)))
    assert printed.startswith("loaded docker.io/library/loaded:1 (")
    up.kubectl("run", "loaded", "--image=loaded:1")
    status = ready(up, "loaded")
    assert status["imageID"] == image.id and status["image"] == "docker.io/library/loaded:1"
    assert up.kubectl("exec", "loaded", "--", "cat", "/which") == "loaded\n"
    assert dict(said(up, "loaded"))["Pulled"].startswith('Container image "loaded:1" already present on machine')


def test_an_absent_image_runs_nothing_and_says_what_its_registry_said(
    up: Running, registry: LoopbackRegistry, tmp_path: Path
) -> None:
    name = f"{registry.host}/absent:1"
    up.kubectl("run", "absent", f"--image={name}")
    eventually(lambda: waiting(up, "absent").get("reason") == "ImagePullBackOff", "the back-off")
    why = f'failed to pull and unpack image "{name}": failed to resolve reference "{name}": {name}: not found'
    assert waiting(up, "absent")["message"] == f'Back-off pulling image "{name}": ErrImagePull: {why}'
    assert {
        ("Pulling", f'Pulling image "{name}"'),
        ("Failed", f'Failed to pull image "{name}": {why}'),
        ("Failed", "Error: ErrImagePull"),
        ("BackOff", f'Back-off pulling image "{name}"'),
        ("Failed", "Error: ImagePullBackOff"),
    } <= set(said(up, "absent"))
    pod = up.json("get", "pod", "absent")["status"]
    assert pod["phase"] == "Pending" and pod["containerStatuses"][0]["imageID"] == ""
    # Once the image is there by other means, the pod runs before the back-off is over.
    podfit(up, "image", "load", str(oci_archive(tmp_path / "x.tar", {name: busybox(which=b"at last\n")})))
    ready(up, "absent")
    assert up.kubectl("exec", "absent", "--", "cat", "/which") == "at last\n"


def test_a_roll_out_to_a_version_that_cannot_start_never_reports_success(
    up: Running, registry: LoopbackRegistry
) -> None:
    first = registry.push("web:1", busybox())
    up.kubectl("create", "deployment", "web", f"--image={first}")
    up.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    broken = registry.push("web:2", busybox({"Cmd": ["/no-such-program"]}))
    absent = f"{registry.host}/web:3"
    for image in (broken, absent):
        up.kubectl("set", "image", "deployment/web", f"web={image}")
        reported = up.kubectl("rollout", "status", "deployment/web", "--timeout=6s", fails=True)
        assert "timed out" in reported
        status = up.json("get", "deployment", "web")["status"]
        assert (status["availableReplicas"], status["updatedReplicas"]) == (1, 1)
    running = [pod for pod in up.json("get", "pods", "-l", "app=web")["items"] if pod["status"]["phase"] == "Running"]
    images = {pod["spec"]["containers"][0]["image"] for pod in running if _is_ready(pod)}
    assert images == {first}


def _is_ready(pod: dict[str, Any]) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in pod["status"]["conditions"]
    )


def test_a_private_image_is_pulled_with_the_pods_secret_and_not_without(
    up: Running, registry: LoopbackRegistry
) -> None:
    name = registry.push("private:1", busybox(which=b"private\n"))
    registry.users = {"me": "hunter2"}
    try:
        up.kubectl("run", "denied", f"--image={name}")
        eventually(lambda: "authentication required" in waiting(up, "denied").get("message", ""), "the refusal")
        login = ("--docker-server", registry.host, "--docker-username=me", "--docker-password=hunter2")
        up.kubectl("create", "secret", "docker-registry", "login", *login)
        up.kubectl("patch", "serviceaccount", "default", "-p", '{"imagePullSecrets":[{"name":"login"}]}')
        up.kubectl("run", "allowed", f"--image={name}")
        ready(up, "allowed")
        up.kubectl("patch", "serviceaccount", "default", "-p", '{"imagePullSecrets":null}')
    finally:
        registry.users = {}
    assert all("hunter2" not in message for _, message in said(up, "denied") + said(up, "allowed"))


def test_a_registry_that_stalls_holds_up_no_other_pod(up: Running, registry: LoopbackRegistry) -> None:
    name = registry.push("stalls:1", busybox(stalls=b"s"))
    registry.faults.append(Fault("/v2/stalls/manifests/", stall_after=0))
    try:
        up.kubectl("run", "stalls", f"--image={name}")
        eventually(lambda: registry.paths("/v2/stalls/manifests/"), "the pull")
        up.kubectl("run", "beside", f"--image={registry.push('beside:1', busybox(beside=b'b'))}")
        ready(up, "beside")
        assert waiting(up, "stalls").get("reason") == "ContainerCreating"
    finally:
        registry.faults.clear()
        up.kubectl("delete", "pod", "stalls", "--now")


def test_images_are_listed_and_removed_unless_they_are_used(up: Running, tmp_path: Path) -> None:
    image = busybox(used=b"u")
    podfit(up, "image", "load", str(oci_archive(tmp_path / "x.tar", {"used:1": image})))
    up.kubectl("run", "user", "--image=used:1")
    ready(up, "user")
    (row,) = [line.split() for line in podfit(up, "image", "ls").splitlines() if "used:1" in line]
    assert row[:2] == ["docker.io/library/used:1", image.id[7:19]] and row[-1] == "1"
    assert "is in use: 1 container runs on it" in podfit(up, "image", "rm", "used:1", fails=True)
    up.kubectl("delete", "pod", "user", "--now")
    assert podfit(up, "image", "rm", "used:1") == "removed used:1\n"
    known = json.loads(podfit(up, "image", "ls", "-o", "json"))["items"]
    assert image.id not in {entry["id"] for entry in known}
    assert "no such image: used:1" in podfit(up, "image", "rm", "used:1", fails=True)


def test_an_image_is_mounted_as_a_volume_for_reading(up: Running, registry: LoopbackRegistry) -> None:
    name = registry.push("data:1", busybox(which=b"mounted\n"))
    part = {"name": "v", "mountPath": "/part", "subPath": "which"}
    container = {
        "name": "c",
        "image": registry.push("reader:1", busybox(which=b"own\n")),
        "volumeMounts": [{"name": "v", "mountPath": "/data"}, part],
    }
    spec = {"containers": [container], "volumes": [{"name": "v", "image": {"reference": name, "pullPolicy": "Always"}}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "reader"}, "spec": spec}
    up.kubectl("apply", "-f", "-", stdin=json.dumps(body))
    ready(up, "reader")
    assert up.kubectl("exec", "reader", "--", "cat", "/which", "/data/which", "/part") == "own\nmounted\nmounted\n"
    assert "Read-only file system" in up.kubectl("exec", "reader", "--", "touch", "/data/x", fails=True)
    assert "is in use: 1 container runs on it" in podfit(up, "image", "rm", name, fails=True)
    up.kubectl("delete", "pod", "reader", "--now")
    assert podfit(up, "image", "rm", name) == f"removed {name}\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("load", "/no/such/file.tar"), "No such file"),
        (("load", __file__), "cannot be read"),
        (("pull", "UPPER"), "must be lowercase"),
        (("pull", "127.0.0.1:1/x:1"), "failed to pull and unpack image"),
    ],
)
def test_an_invalid_archive_is_rejected_with_a_one_sentence_error(
    up: Running, words: tuple[str, ...], why: str
) -> None:
    assert why in podfit(up, "image", *words, fails=True)
