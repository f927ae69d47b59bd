"""crictl (cri-tools) on `podfit vm-runtime`: what a user types against any container runtime."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.kernelnet import network_namespace, skip_without_networks
from tests.vms import GUEST, guest_archive, kubernetes, needs_vms, process

pytestmark = [needs_vms, pytest.mark.slow]


class Crictl:
    def __init__(self, folder: Path, within: tuple[str, ...]) -> None:
        config = folder / "crictl.yaml"
        config.write_text(f"runtime-endpoint: unix://{folder}/vm.sock\ntimeout: 60\n")
        self._command = (*within, kubernetes("crictl"), "-c", str(config))

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(*self._command, *words, stdin=pipe, stdout=pipe, stderr=pipe)

    @staticmethod
    async def end(running: asyncio.subprocess.Process) -> str:
        """Kills the process; returns its unread output."""
        running.kill()
        out, _ = await asyncio.wait_for(running.communicate(), 60)
        return out.decode()

    async def __call__(self, *words: str, stdin: bytes = b"", code: int = 0) -> str:
        running = await self.start(*words)
        out, err = await asyncio.wait_for(running.communicate(stdin), 120)
        assert running.returncode == code, (words, err.decode())
        return (out if not code else err).decode().strip()

    async def json(self, verb: str, *words: str) -> Any:
        return json.loads(await self(verb, "-o", "json", *words))


def configs(folder: Path) -> tuple[str, str]:
    pod = {
        "metadata": {"name": "guest", "uid": "guest-1", "namespace": "default"},
        "hostname": "guest",
        "log_directory": str(folder / "logs"),
        "linux": {},
    }
    size = {"cpu_period": 100_000, "cpu_quota": 100_000, "memory_limit_in_bytes": 256 << 20}
    vm = {
        "metadata": {"name": "vm"},
        "image": {"image": GUEST},
        "log_path": "vm.log",
        "stdin": True,
        "linux": {"resources": size},
    }
    (folder / "pod.json").write_text(json.dumps(pod))
    (folder / "vm.json").write_text(json.dumps(vm))
    return str(folder / "pod.json"), str(folder / "vm.json")


async def test_every_verb_of_crictl_works_on_a_vm(tmp_path: Path) -> None:
    skip_without_networks()
    archive = guest_archive(tmp_path)
    with network_namespace() as within:
        crictl = Crictl(tmp_path, within)
        options = ("--network", "bridge", "--image-archive", str(archive))
        async with process(tmp_path, *options, within=within):
            await about_the_runtime(crictl)
            pod, vm = configs(tmp_path)
            events = await crictl.start("events")
            sandbox = await crictl("runp", pod)
            id = await crictl("create", sandbox, vm, pod)
            await crictl("start", id)
            try:
                await inside(crictl, id)
                await about_the_vm(crictl, sandbox, id)
                await through(crictl, sandbox, id, within)
                await resized(crictl, id)
            finally:
                await crictl("stop", "--timeout", "60", id)
                await crictl("rm", "--keep-logs", id)
                await crictl("stopp", sandbox)
                await crictl("rmp", sandbox)
            assert not await crictl("pods", "-q") and not await crictl("ps", "-aq")
            assert "PODFIT-GUEST-READY" in (tmp_path / "logs/vm.log").read_text()
            await crictl("rmi", GUEST)
            assert not await crictl("images", "-q")
            said = await crictl.end(events)
            assert [word for word in ("CREATED", "STARTED", "STOPPED", "DELETED") if f"{word}_EVENT" not in said] == []


async def about_the_runtime(crictl: Crictl) -> None:
    assert "podfit-vm" in await crictl("version")
    info = await crictl.json("info")
    assert all(condition["status"] for condition in info["status"]["conditions"])
    assert {"name": "vm"} in info["runtimeHandlers"]
    assert "CGROUPFS" in await crictl("runtime-config")
    await crictl("update-runtime-config", "--pod-cidr", "10.7.0.0/24")
    assert GUEST in (await crictl.json("images"))["images"][0]["repoTags"]
    assert (await crictl.json("inspecti", GUEST))["status"]["repoTags"] == [GUEST]
    assert (await crictl.json("imagefsinfo"))["status"]["imageFilesystems"]
    assert "failed to pull" in await crictl("pull", "127.0.0.1:1/nothing:1", code=1)


async def inside(crictl: Crictl, id: str) -> None:
    """The first command waits for the guest to boot, which takes minutes on a busy machine."""
    for _ in range(5):
        first = await crictl.start("exec", "--sync", "--timeout", "90", id, "hostname")
        if (await asyncio.wait_for(first.communicate(), 120))[0].strip() == b"guest":
            break
    else:
        raise AssertionError("the guest did not boot")
    assert await crictl("exec", "--interactive", id, "cat", stdin=b"hello\n") == "hello"
    assert "exit code 3" in await crictl("exec", id, "sh", "-c", "exit 3", code=1)
    terminal = f"{' '.join(crictl._command)} exec --interactive --tty {id} sh -c 'read line; tty; echo got $line'"
    running = await asyncio.create_subprocess_exec(
        "script", "-qec", terminal, "/dev/null", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(running.communicate(b"word\n"), 60)
    assert b"/dev/pts/" in out and b"got word" in out


async def about_the_vm(crictl: Crictl, sandbox: str, id: str) -> None:
    assert (await crictl.json("pods"))["items"][0]["id"] == sandbox
    assert (await crictl.json("ps"))["containers"][0]["id"] == id
    status = (await crictl.json("inspect", id))["status"]
    assert (status["state"], status["logPath"]) == ("CONTAINER_RUNNING", status["logPath"])
    assert (await crictl.json("inspectp", sandbox))["status"]["network"]["ip"]
    assert "PODFIT-GUEST-READY" in await crictl("logs", id)
    assert int((await crictl.json("stats", id))["stats"][0]["memory"]["workingSetBytes"]["value"]) > 0
    assert int((await crictl.json("statsp"))["stats"][0]["linux"]["cpu"]["usageCoreNanoSeconds"]["value"]) > 0


async def through(crictl: Crictl, sandbox: str, id: str, within: tuple[str, ...]) -> None:
    attached = await crictl.start("attach", "--stdin", id)
    assert attached.stdin is not None and attached.stdout is not None
    attached.stdin.write(b"echo sum $((40 + 2))\n")
    async with asyncio.timeout(60):
        await attached.stdout.readuntil(b"sum 42")
    await crictl.end(attached)
    forward = await crictl.start("port-forward", sandbox, "18080:8080")
    assert forward.stdout is not None
    async with asyncio.timeout(60):
        await forward.stdout.readuntil(b"8080")
    fetch = (*within, "curl", "--silent", "--max-time", "30", "http://127.0.0.1:18080/")
    page = await asyncio.create_subprocess_exec(*fetch, stdout=asyncio.subprocess.PIPE)
    assert (await page.communicate())[0] == b"a VM pod\n"
    await crictl.end(forward)


async def resized(crictl: Crictl, id: str) -> None:
    await crictl("update", "--cpu-quota", "200000", "--memory", str(384 << 20), id)
    assert await crictl("exec", "--sync", id, "nproc") == "2"
    linux = (await crictl.json("inspect", id))["status"]["resources"]["linux"]
    assert (linux["cpuQuota"], linux["memoryLimitInBytes"]) == ("200000", str(384 << 20))
