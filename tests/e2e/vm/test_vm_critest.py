"""critest (cri-tools) against `podfit vm-runtime`: docs/vm-critest.md lists every spec with its outcome."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shlex
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.guest import vm_image
from tests.kernelnet import network_namespace, skip_without_networks
from tests.support.containers.images import Built, build
from tests.support.containers.registry import LoopbackRegistry
from tests.vms import GUEST, Vms, guest_archive, kubernetes, needs_vms, process

from podfit.podnet.kernel import namespaces

pytestmark = [needs_vms, pytest.mark.slow]
PAGE = Path(__file__).resolve().parents[3] / "docs/vm-critest.md"
TEAM = "k8s-staging-cri-tools"
HOSTS = ("gcr.io", "registry.k8s.io", "k8s.gcr.io")


def specs(title: str = "") -> set[str]:
    """The specs that the page lists, in all or in one of its sections."""
    chapters = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {
        name
        for chapter in chapters
        if chapter.startswith(title)
        for name in re.findall(r"^- (.+)$", chapter, flags=re.MULTILINE)
    }


def reported(file: Path) -> dict[str, str]:
    """The state of each spec by its name."""
    report: list[dict[str, Any]] = json.loads(file.read_text())
    found = {}
    for spec in report[0]["SpecReports"]:
        words = [*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]]
        # Benchmarks are specs, too, which run only on request.
        if spec["LeafNodeType"] == "It" and "benchmark" not in " ".join(words):
            found[" ".join(words).removeprefix("[k8s.io] ").replace(" [Conformance]", "")] = spec["State"]
    return found


def guest_image(folder: Path, user: str = "", mark: str = "") -> Built:
    kernel, initrd = vm_image.guest()
    files = {"boot/vmlinuz": kernel.read_bytes(), "boot/initrd.img": initrd.read_bytes(), "mark": mark.encode()}
    return build([files], {"User": user, "Labels": {"podfit.dev/vm-cmdline": vm_image.CMDLINE}})


def fill(registry: LoopbackRegistry, folder: Path) -> None:
    guest = guest_image(folder)
    for name in ("test-image-tag:test", "test-image-tag:all", "test-image-latest:latest"):
        registry.push(f"{TEAM}/{name}", guest)
    for tag in "123":
        registry.push(f"{TEAM}/test-image-tags:{tag}", guest)
        registry.push(f"{TEAM}/test-image-{tag}:latest", build([{"mark": tag.encode()}]))
    users = {"uid": "1002", "username": "www-data", "uid-group": "1003:users", "username-group": "www-data:100"}
    for name, user in users.items():
        registry.push(f"{TEAM}/test-image-user-{name}:latest", build([{"mark": name.encode()}], {"User": user}))
    registry.push("pause:3.9", guest_image(folder, mark="pause"))


@contextlib.asynccontextmanager
async def registries(folder: Path, within: tuple[str, ...]) -> AsyncIterator[tuple[str, ...]]:
    """A command prefix under which the names of public registries resolve to the test's registry."""

    def listen() -> socket.socket:
        namespaces.enter(Path(within[1].removeprefix("--net=")))
        return socket.create_server(("127.0.0.1", 80))

    hosts = folder / "hosts"
    hosts.write_text("".join(f"127.0.0.1 {name}\n" for name in ("localhost", *HOSTS)))
    async with LoopbackRegistry(listener=await namespaces.in_thread(listen)) as registry:
        fill(registry, folder)
        script = f'mount --bind {shlex.quote(str(hosts))} /etc/hosts && exec "$0" "$@"'
        yield (*within, "unshare", "--mount", "sh", "-c", script)


def test_every_spec_of_critest_is_on_the_page(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [kubernetes("critest"), "--ginkgo.dry-run", "--ginkgo.json-report", str(report)]
    subprocess.run(command, capture_output=True, check=True, timeout=60, cwd=tmp_path)
    assert set(reported(report)) == specs()


async def test_the_specs_that_apply_to_a_vm_pass(tmp_path: Path) -> None:
    critest, wanted = kubernetes("critest"), specs("Passes")
    skip_without_networks()
    archive = guest_archive(tmp_path)
    vm_image.guest_archive(archive, GUEST, f"{vm_image.CMDLINE} podfit.talk")
    images, report = tmp_path / "images.yaml", tmp_path / "report.json"
    images.write_text(f"defaultTestContainerImage: {GUEST}\nwebServerTestImage: {GUEST}\n")
    insecure = [word for host in HOSTS for word in ("--insecure-registry", host)]
    with network_namespace() as within:
        async with registries(tmp_path, within) as around:
            options = ("--network", "bridge", "--image-archive", str(archive), *insecure)
            async with process(tmp_path, *options, within=around):
                command = [*within, critest, "-runtime-endpoint", f"unix://{tmp_path}/vm.sock"]
                command += ["-test-images-file", str(images), "--ginkgo.json-report", str(report)]
                # A guest that boots slowly on a busy machine is not a failure of the runtime.
                command += ["--ginkgo.flake-attempts", "3"]
                command += ["--ginkgo.focus", "|".join(re.escape(name) for name in sorted(wanted))]
                ran = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE)
                said, _ = await asyncio.wait_for(ran.communicate(), 1500)
                vms = Vms(tmp_path / "vm.sock")
                await vms.remove_all()
                await vms.close()
    found = reported(report)
    failed = {name: found.get(name) for name in wanted if found.get(name) != "passed"}
    assert not failed, said.decode()[-20000:]
