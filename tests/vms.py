"""Real VMs for tests: a runtime with its server in this process, and the calls of CRI on its socket."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from podfit.cri import api_pb2 as cri
from podfit.cri.migrations import migration_calls
from podfit.cri.services import IMAGE, OPTIONS, RUNTIME, calls
from tests.e2e.guest import image, vm_image

GUEST = "podfit.dev/vm-guest:1"


def why_no_vms() -> str:
    if platform.machine() != "x86_64":
        return "the guest is built for x86_64"
    if os.geteuid() != 0:
        return "VMs need root"
    if shutil.which("qemu-system-x86_64") is None or shutil.which("qemu-img") is None:
        return "QEMU is not installed"
    try:
        import libvirt  # noqa: F401
    except ImportError:
        return "libvirt-python is not installed (make libvirt)"
    from podfit.vm.machines import folder

    try:
        folder.check_user()
    except folder.CannotRun as error:
        return str(error)
    return ""


needs_vms = pytest.mark.skipif(bool(why_no_vms()), reason=why_no_vms() or "-")


def guest_archive(folder: Path) -> Path:
    try:
        return vm_image.guest_archive(folder / "guest.tar", GUEST)
    except image.CannotBuild as error:
        pytest.skip(f"no guest for VMs here: {error}")


def podfit(*words: str) -> str:
    command = [sys.executable, "-m", "podfit.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Vms:
    """The calls of a VM runtime, with short words for what tests do most."""

    def __init__(self, socket: Path) -> None:
        self._channel = grpc.aio.insecure_channel(f"unix://{socket}", options=OPTIONS)
        self.runtime, self.image = calls(self._channel, RUNTIME), calls(self._channel, IMAGE)
        self.migrations = migration_calls(self._channel)

    async def close(self) -> None:
        await self._channel.close()

    async def sandbox(self, name: str, folder: Path | None = None, **annotations: str) -> cri.PodSandboxConfig:
        config = cri.PodSandboxConfig(
            metadata=cri.PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace="default"),
            hostname=name,
            log_directory=str(folder) if folder else "",
            annotations={"podfit.dev/vm-" + key.strip("_").replace("_", "-"): annotations[key] for key in annotations},
        )
        return config

    async def run(
        self, name: str, cpus: int = 1, memory: int = 256, folder: Path | None = None, image: str = GUEST, **notes: str
    ) -> str:
        """Sandbox, container, started; returns the container's ID."""
        config = await self.sandbox(name, folder, **notes)
        sandbox = (await self.runtime["RunPodSandbox"](cri.RunPodSandboxRequest(config=config))).pod_sandbox_id
        container = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name="vm"),
            image=cri.ImageSpec(image=image),
            log_path="vm/0.log",
            linux=cri.LinuxContainerConfig(resources=resources(cpus, memory)),
        )
        request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=container, sandbox_config=config)
        id: str = (await self.runtime["CreateContainer"](request)).container_id
        await self.runtime["StartContainer"](cri.StartContainerRequest(container_id=id))
        return id

    @contextlib.asynccontextmanager
    async def running(self, name: str, **how: Any) -> AsyncIterator[str]:
        """A VM for the time of a block."""
        id = await self.run(name, **how)
        try:
            yield id
        finally:
            containers = await self.runtime["ListContainers"](cri.ListContainersRequest())
            sandbox = next(container.pod_sandbox_id for container in containers.containers if container.id == id)
            await self.runtime["RemovePodSandbox"](cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))

    async def status(self, id: str) -> cri.ContainerStatus:
        found = await self.runtime["ContainerStatus"](cri.ContainerStatusRequest(container_id=id))
        status: cri.ContainerStatus = found.status
        return status

    async def about(self, id: str) -> dict[str, Any]:
        """What the runtime says besides the status."""
        found = await self.runtime["ContainerStatus"](cri.ContainerStatusRequest(container_id=id, verbose=True))
        about: dict[str, Any] = json.loads(found.info["info"])
        return about

    async def size(self, id: str) -> tuple[int, int]:
        """vCPUs and MiB, as the runtime reports them."""
        linux = (await self.status(id)).resources.linux
        return linux.cpu_quota // (linux.cpu_period or 100_000), linux.memory_limit_in_bytes >> 20

    async def resize(self, id: str, cpus: int, memory: int) -> None:
        """Asked again as long as the change goes on, as a kubelet would."""
        request = cri.UpdateContainerResourcesRequest(container_id=id, linux=resources(cpus, memory))
        async with asyncio.timeout(180):
            while True:
                try:
                    await self.runtime["UpdateContainerResources"](request)
                    return
                except grpc.aio.AioRpcError as error:
                    if "still in progress" not in (error.details() or ""):
                        raise

    async def exec(self, id: str, script: str) -> str:
        request = cri.ExecSyncRequest(container_id=id, cmd=["/bin/sh", "-c", script], timeout=30)
        ran = await self.runtime["ExecSync"](request)
        assert ran.exit_code == 0, ran
        out: bytes = ran.stdout
        return out.decode()

    async def booted(self, id: str, seconds: float = 180) -> None:
        """Until the guest's agent answers."""

        async def answers() -> bool:
            with contextlib.suppress(grpc.aio.AioRpcError):
                return bool(await self.exec(id, "echo up"))
            return False

        await until(answers, seconds)

    async def guest(self, id: str) -> tuple[int, int]:
        """vCPUs and MiB, as the guest itself counts them."""
        out = await self.exec(id, "nproc; sed -n 's/MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo")
        cpus, memory = out.split()
        return int(cpus), int(memory) >> 10

    async def stop(self, id: str, grace: int = 0) -> None:
        await self.runtime["StopContainer"](cri.StopContainerRequest(container_id=id, timeout=grace))

    async def remove_all(self) -> None:
        for item in (await self.runtime["ListPodSandbox"](cri.ListPodSandboxRequest())).items:
            await self.runtime["RemovePodSandbox"](cri.RemovePodSandboxRequest(pod_sandbox_id=item.id))


def kubernetes(program: str) -> str:
    """The path of a program of Kubernetes or cri-tools, which no package has. Skips the test without it."""
    folder = os.environ.get("PODFIT_KUBERNETES", "")
    if not folder or not os.access(path := Path(folder) / program, os.X_OK):
        pytest.skip(f"no {program}: PODFIT_KUBERNETES names no folder that has it")
    return str(path)


def resources(cpus: int, memory: int) -> cri.LinuxContainerResources:
    return cri.LinuxContainerResources(
        cpu_period=100_000, cpu_quota=cpus * 100_000, cpu_shares=cpus * 1024, memory_limit_in_bytes=memory << 20
    )


def logged(path: Path) -> str:
    """The text of a container log, without stamps and tags."""
    parts = [line.split(" ", 3) for line in path.read_text().splitlines()] if path.exists() else []
    return "".join(part[3] + ("\n" if part[2] == "F" else "") for part in parts)


async def until(true: Callable[[], Any], seconds: float = 60) -> None:
    """For what a guest does by itself, which nothing reports."""
    async with asyncio.timeout(seconds):
        while not await true():
            await asyncio.sleep(0.05)


def share_cache(root: Path) -> None:
    """libvirt asks QEMU once what it can do, for seconds; the answer is kept for all tests of this machine."""
    shared = image.cache_folder() / "libvirt"
    shared.mkdir(exist_ok=True)
    root.mkdir(parents=True, exist_ok=True)
    if not (root / "cache").exists():
        (root / "cache").symlink_to(shared)


class _Kept:
    """A connection that runtimes of this process take turns to use; closing it closes nothing."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def close(self) -> None:
        return


def _keep_connection(root: Path) -> None:
    """A process can open an embedded libvirt ten times at most, and only ever the same one."""
    import libvirt

    if "podfit" in vars(libvirt.open):
        return
    real, kept = libvirt.open, dict[str, _Kept]()

    def opened(uri: str) -> Any:
        if "embed" not in uri:
            return real(uri)
        if uri not in kept:
            kept[uri] = _Kept(real(uri))
        return kept[uri]

    vars(opened)["podfit"] = True
    libvirt.open = opened
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    atexit.register(lambda: [item._real.close() for item in kept.values()])


@contextlib.asynccontextmanager
async def serving(
    folder: Path, archive: Path | None = None, keep: bool = False, **settings: Any
) -> AsyncIterator[tuple[Any, Vms]]:
    """A runtime on this folder, with the guest's image; VMs that are left are removed at the end, unless kept."""
    from podfit.vm.server.server import Server, Settings

    libvirt = Path(f"/tmp/podfit-vms-{os.getpid()}")
    share_cache(libvirt)
    _keep_connection(libvirt)
    archives = (archive,) if archive is not None else ()
    given = {"network": "user", "libvirt_folder": libvirt, "archives": archives, **settings}
    server = Server(Settings(folder, folder / "vm.sock", **given))
    await server.start()
    vms = Vms(folder / "vm.sock")
    try:
        yield server.runtime, vms
    finally:
        if not keep:
            await vms.remove_all()
        await vms.close()
        await server.stop()


@contextlib.asynccontextmanager
async def process(
    folder: Path, *arguments: str, within: tuple[str, ...] = ()
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`podfit vm-runtime` as a user starts it, once it is ready; killed at the end. `within`: words before it."""
    share_cache(folder / "libvirt")
    command = [*within, sys.executable, "-m", "podfit.cli.main", "vm-runtime", "--data-dir", str(folder)]
    command += ["--listen", f"unix://{folder}/vm.sock", "--network", "user", *arguments]
    from podfit.vm.machines.process import Orphans, Processes

    running = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert running.stdout is not None
        assert (await running.stdout.readline()).startswith(b"ready")
        # VMs that a killed runtime leaves behind may become children of this process.
        with Orphans(Processes()).reaped():
            yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            running.kill()
        await running.wait()
