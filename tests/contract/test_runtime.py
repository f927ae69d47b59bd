"""The contract of every runtime, fake and real. The same file runs inside a cgroup v2 guest (tests/e2e/guest)."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.cgroups import detect
from podfit.agent.runtimes.fake.runtime import FakeNodeState, FakeRuntime
from podfit.agent.runtimes.process.runtime import ProcessRuntime
from podfit.agent.runtimes.process.support import check_support
from podfit.agent.runtimes.values import (
    CREATED,
    EXITED,
    RUNNING,
    UNLIMITED,
    BelowUsage,
    CannotRun,
    ContainerConfig,
    ContainerState,
    ImageMissing,
    Limits,
    LimitsChange,
    Mount,
    NotFound,
    PodConfig,
    RuntimeEvent,
    RuntimeFailure,
)
from podfit.podnet.network import NetworkSettings, PodNetwork
from podfit.podnet.support import missing_for_bridge

MIB = 1 << 20
WAIT_S = 30.0
PYTHON = os.path.realpath(sys.executable)
HOG = (
    "import signal\n"
    "held = bytearray(b'x') * ({mib} << 20)\n"
    "def free(*_):\n    global held\n    held = b''\n"
    "signal.signal(signal.SIGUSR1, free)\n"
    "print('holding', flush=True)\n"
    "while True: signal.pause()\n"
)


@dataclass
class Bench:
    """A runtime under test, and a way to recreate it as a restarted agent would."""

    kind: str
    folder: Path
    make: Callable[[], Runtime]
    runtime: Any = None
    image: str = "host"
    """The image of containers unless a test names another one."""
    seen: list[RuntimeEvent] = field(default_factory=list)
    _reader: asyncio.Task[None] | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def python(self) -> tuple[Mount, ...]:
        """Volumes with which a container can run Python: images have none; the process runtime uses the host's."""
        return (Mount(Path("/usr"), "/usr", read_only=True),) if self.kind == "cri" else ()

    async def open(self) -> None:
        self.runtime = self.make()
        await self.runtime.open()
        self._reader = asyncio.create_task(self._read(self.runtime))

    async def _read(self, runtime: Runtime) -> None:
        async for event in runtime.events():
            self.seen.append(event)
            self._news.set()

    async def restart(self) -> None:
        assert self._reader is not None
        self._reader.cancel()
        await self.runtime.close()
        self.seen.clear()
        await self.open()

    async def close(self) -> None:
        assert self._reader is not None
        self._reader.cancel()
        for pod in await self.runtime.pods():
            await self.runtime.remove_pod(pod.config.uid)
        if self.kind != "fake":
            await self.runtime.purge()
        await self.runtime.close()

    async def event(self, kind: str, container_id: str) -> None:
        async with asyncio.timeout(WAIT_S):
            while not any(item.kind == kind and item.container_id == container_id for item in self.seen):
                self._news.clear()
                await self._news.wait()

    async def pod(self, limits: Limits | None = None, qos: str = "Burstable", **more: Any) -> str:
        uid = str(uuid.uuid4())
        limits = limits or Limits(cpu_shares=512)
        await self.runtime.run_pod(PodConfig(uid, "web", "default", qos, limits, "web-0", self.folder / "logs", **more))
        return uid

    async def container(
        self, uid: str, *command: str, limits: Limits | None = None, name: str = "c1", **more: Any
    ) -> str:
        config = ContainerConfig(
            name=name,
            attempt=more.pop("attempt", 0),
            image=more.pop("image", self.image),
            command=command,
            args=(),
            environment=more.pop("environment", {}),
            working_dir="",
            mounts=more.pop("mounts", ()),
            limits=limits or Limits(cpu_shares=256),
            log_file=self.folder / "logs" / uid / f"{name}.log",
            **more,
        )
        container_id: str = await self.runtime.create_container(uid, config)
        return container_id

    async def run(self, *command: str, **more: Any) -> tuple[str, str]:
        uid = await self.pod()
        cid = await self.container(uid, *command, **more)
        await self.runtime.start_container(cid)
        return uid, cid

    async def state(self, container_id: str) -> ContainerState:
        state = await self.runtime.container(container_id)
        assert state is not None
        return state

    def log(self, uid: str, name: str = "c1") -> str:
        file = self.folder / "logs" / uid / f"{name}.log"
        return file.read_text() if file.exists() else ""

    async def hog(self, uid: str, mib: int, limits: Limits | None = None) -> str:
        """A running container that has already allocated that much memory."""
        annotations = {"podfit.dev/fake-memory": f"constant:{mib}Mi"}
        command = (PYTHON, "-S", "-c", HOG.format(mib=mib))
        cid = await self.container(uid, *command, limits=limits, annotations=annotations, mounts=self.python)
        await self.runtime.start_container(cid)
        if self.kind != "fake":
            await until(lambda: "holding" in self.log(uid))
        return cid

    async def let_go(self, uid: str, container_id: str) -> None:
        if isinstance(self.runtime, FakeRuntime):
            self.runtime.set_load(uid, "c1", memory=float(MIB))
            return
        stream = await self.runtime.exec(container_id, ["kill", "-USR1", "1"])
        assert await stream.wait() == 0
        await stream.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.005)


def process_runtime(folder: Path, mark: str, mode: str) -> ProcessRuntime:
    network = PodNetwork(folder / "data" / "network", mark, NetworkSettings(mode, folder / "no-cni"))
    return ProcessRuntime(folder / "data", cgroup_root=f"/podfit-test-{mark}", network=network)


@pytest.fixture(params=["fake", "process", "process with a network per pod", "cri"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    if request.param == "cri":
        # Imported here because the guest has no gRPC.
        from podfit.agent.runtimes.cri.runtime import CriRuntime

        endpoint = request.getfixturevalue("containerd").endpoint
        node = f"podfit-test-{uuid.uuid4().hex[:8]}"
        data = tmp_path / "data"
        made = Bench("cri", tmp_path, lambda: CriRuntime(endpoint, node, data, f"/{node}"), image="busybox")
    elif request.param.startswith("process"):
        mode = "host" if request.param == "process" else "bridge"
        if unsupported := check_support() + (missing_for_bridge() if mode == "bridge" else []):
            pytest.skip("; ".join(unsupported))
        mark = uuid.uuid4().hex[:8]
        made = Bench("process", tmp_path, lambda: process_runtime(tmp_path, mark, mode))
    else:
        kept = FakeNodeState()
        made = Bench("fake", tmp_path, lambda: FakeRuntime(state=kept))
    await made.open()
    yield made
    await made.close()


async def test_a_container_is_created_then_runs_then_has_ended(bench: Bench) -> None:
    uid = await bench.pod()
    cid = await bench.container(uid, "sleep", "0.05")
    assert (await bench.state(cid)).state == CREATED
    await bench.runtime.start_container(cid)
    state = await bench.state(cid)
    assert state.state == RUNNING and state.pid > 0 and state.started_at > 0
    await bench.event("started", cid)
    await bench.event("exited", cid)
    state = await bench.state(cid)
    assert (state.state, state.exit_code, state.reason, state.pid) == (EXITED, 0, "Completed", 0)
    assert state.finished_at >= state.started_at >= state.created_at > 0


@pytest.mark.parametrize(("command", "code"), [(("false",), 1), (("sh", "-c", "exit 3"), 3), (("true",), 0)])
async def test_the_exit_code_is_the_programs(bench: Bench, command: tuple[str, ...], code: int) -> None:
    _, cid = await bench.run(*command)
    await bench.event("exited", cid)
    state = await bench.state(cid)
    assert (state.exit_code, state.reason) == (code, "Error" if code else "Completed")


async def test_a_missing_program_cannot_run(bench: Bench) -> None:
    uid = await bench.pod()
    cid = await bench.container(uid, "/nonexistent/program")
    with pytest.raises(CannotRun, match="no such file"):
        await bench.runtime.start_container(cid)
    state = await bench.state(cid)
    assert (state.state, state.exit_code, state.reason) == (EXITED, 128, "StartError")


async def test_a_container_that_handles_sigterm_ends_within_its_grace_period(bench: Bench) -> None:
    uid, cid = await bench.run("sh", "-c", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done")
    await until(lambda: "ready" in bench.log(uid))
    await bench.runtime.stop_container(cid, grace_s=WAIT_S)
    assert (await bench.state(cid)).exit_code == 7


async def test_a_container_is_stopped_by_the_signal_of_its_pod(bench: Bench) -> None:
    if bench.kind == "fake":
        pytest.skip("its programs hear no signals")
    traps = "trap 'exit 5' USR1; trap 'exit 6' TERM; echo ready; while :; do sleep 0.01; done"
    uid, cid = await bench.run("sh", "-c", traps, stop_signal="SIGUSR1")
    await until(lambda: "ready" in bench.log(uid))
    await bench.runtime.stop_container(cid, grace_s=WAIT_S)
    assert (await bench.state(cid)).exit_code == 5


async def test_a_container_that_is_deaf_to_sigterm_is_killed_after_its_grace(bench: Bench) -> None:
    _, cid = await bench.run("sleep", "1000")
    await bench.runtime.stop_container(cid, grace_s=0.05)
    state = await bench.state(cid)
    assert (state.state, state.exit_code, state.reason) == (EXITED, 137, "Error")


async def test_a_container_without_a_program_of_its_own_waits_and_exits_when_stopped(bench: Bench) -> None:
    uid = await bench.pod()
    image = "registry.k8s.io/pause:3.10" if bench.kind == "cri" else bench.image
    cid = await bench.container(uid, image=image)
    await bench.runtime.start_container(cid)
    assert (await bench.state(cid)).state == RUNNING
    await bench.runtime.stop_container(cid, grace_s=WAIT_S)
    assert (await bench.state(cid)).state == EXITED


async def test_output_goes_to_the_log_in_cri_format(bench: Bench) -> None:
    uid, cid = await bench.run("sh", "-c", "echo one; echo two >&2; echo three")
    await bench.event("exited", cid)
    rows = [
        re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]+\.\d{1,9}Z (stdout|stderr) F (.*)", row)
        for row in bench.log(uid).splitlines()
    ]
    said = sorted((row[2], row[1]) for row in rows if row)
    assert said == [("one", "stdout"), ("three", "stdout"), ("two", "stderr")]


async def test_exec_gives_output_and_exit_code(bench: Bench) -> None:
    _, cid = await bench.run("sleep", "1000")
    stream = await bench.runtime.exec(cid, ["sh", "-c", "echo out; echo err >&2; exit 5"])
    got = {1: b"", 2: b""}
    while (piece := await stream.read()) is not None:
        got[piece[0]] += piece[1]
    assert got == {1: b"out\n", 2: b"err\n"}
    assert await stream.wait() == 5
    await stream.close()


async def test_exec_passes_input_on(bench: Bench) -> None:
    _, cid = await bench.run("sleep", "1000")
    stream = await bench.runtime.exec(cid, ["cat"], stdin=True)
    await stream.write(b"hello")
    await stream.close_stdin()
    assert await stream.read() == (1, b"hello")
    assert await stream.read() is None
    assert await stream.wait() == 0
    await stream.close()


async def test_a_closed_exec_is_over(bench: Bench) -> None:
    _, cid = await bench.run("sleep", "1000")
    stream = await bench.runtime.exec(cid, ["sleep", "1000"])
    await stream.close()
    assert await stream.wait() == 137


async def test_exec_into_a_missing_or_stopped_container_is_refused(bench: Bench) -> None:
    _, cid = await bench.run("sleep", "1000")
    with pytest.raises(CannotRun, match="no such file"):
        # Some runtimes report it at once, others only after an attempt.
        await (await bench.runtime.exec(cid, ["/nonexistent/program"])).wait()
    await bench.runtime.stop_container(cid, grace_s=0)
    with pytest.raises(CannotRun, match="not running"):
        await bench.runtime.exec(cid, ["true"])


async def test_attach_shows_what_the_container_says_from_now_on(bench: Bench) -> None:
    _, cid = await bench.run("sh", "-c", "sleep 0.3; echo late; sleep 0.1; exit 4")
    stream = await bench.runtime.attach(cid)
    assert await stream.read() == (1, b"late\n")
    assert await stream.read() is None
    assert await stream.wait() == 4
    await stream.close()


async def test_limits_are_read_back_as_they_were_written(bench: Bench) -> None:
    pod_limits = Limits(cpu_shares=1024, cpu_quota_us=150_000, memory_bytes=128 * MIB)
    own = Limits(cpu_shares=307, cpu_quota_us=50_000, memory_bytes=64 * MIB)
    uid = await bench.pod(pod_limits, qos="Guaranteed")
    cid = await bench.container(uid, "sleep", "1000", limits=own)
    await bench.runtime.start_container(cid)
    assert await bench.runtime.pod_limits(uid) == pod_limits
    assert await bench.runtime.container_limits(cid) == own


async def test_an_update_changes_what_it_names_and_nothing_else(bench: Bench) -> None:
    uid = await bench.pod()
    cid = await bench.container(uid, "sleep", "1000", limits=Limits(256, 50_000, 64 * MIB))
    await bench.runtime.start_container(cid)
    await bench.runtime.update_container(cid, LimitsChange(cpu_quota_us=20_000))
    assert await bench.runtime.container_limits(cid) == Limits(256, 20_000, 64 * MIB)
    await bench.runtime.update_container(cid, LimitsChange(cpu_shares=25, memory_bytes=48 * MIB))
    assert await bench.runtime.container_limits(cid) == Limits(25, 20_000, 48 * MIB)
    await bench.runtime.update_container(cid, LimitsChange(cpu_quota_us=UNLIMITED, memory_bytes=UNLIMITED))
    assert await bench.runtime.container_limits(cid) == Limits(25, None, None)
    await bench.runtime.update_pod(uid, LimitsChange(cpu_shares=100, cpu_quota_us=300_000, memory_bytes=256 * MIB))
    assert await bench.runtime.pod_limits(uid) == Limits(100, 300_000, 256 * MIB)
    assert (await bench.state(cid)).state == RUNNING


def _all_cpus() -> str:
    """All CPUs of the machine as one range."""
    last = (os.cpu_count() or 1) - 1
    return f"0-{last}" if last else "0"


def _affinity(pid: int) -> str:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list"))


async def test_a_container_runs_on_the_cpus_it_was_given_until_it_gets_others(bench: Bench) -> None:
    uid = await bench.pod()
    cid = await bench.container(uid, "sleep", "1000", limits=Limits(256, cpuset_cpus="0"))
    await bench.runtime.start_container(cid)
    assert await bench.runtime.container_limits(cid) == Limits(256, cpuset_cpus="0")
    pid = (await bench.state(cid)).pid
    if bench.kind != "fake":
        assert _affinity(pid) == "0"
    await bench.runtime.update_container(cid, LimitsChange(cpuset_cpus=_all_cpus()))
    assert await bench.runtime.container_limits(cid) == Limits(256, cpuset_cpus=_all_cpus())
    if bench.kind != "fake":
        assert _affinity(pid) == _all_cpus()


async def test_cpus_can_be_set_between_creation_and_start(bench: Bench) -> None:
    uid = await bench.pod()
    cid = await bench.container(uid, "sleep", "1000", limits=Limits(256, cpuset_cpus=_all_cpus()))
    await bench.runtime.update_container(cid, LimitsChange(cpuset_cpus="0"))
    await bench.runtime.start_container(cid)
    if bench.kind != "fake":
        assert _affinity((await bench.state(cid)).pid) == "0"
    assert (await bench.runtime.container_limits(cid)).cpuset_cpus == "0"


async def test_a_container_that_runs_without_restriction_can_be_given_cpus(bench: Bench) -> None:
    uid, cid = await bench.run("sh", "-c", "sleep 1000 & sleep 1000 & wait")
    await bench.runtime.update_container(cid, LimitsChange(cpuset_cpus="0"))
    assert (await bench.runtime.container_limits(cid)).cpuset_cpus == "0"
    if bench.kind == "process":
        members = Path(detect().procs_file(f"{bench.runtime.cgroup_root}/burstable/pod{uid}/{cid}"))
        assert {_affinity(int(pid)) for pid in members.read_text().split()} == {"0"}
        stream = await bench.runtime.exec(cid, ["grep", "Cpus_allowed_list", "/proc/self/status"])
        assert (await stream.read())[1].split() == [b"Cpus_allowed_list:", b"0"]
        await stream.wait()
        await stream.close()


async def test_cpus_are_kept_while_no_agent_runs(bench: Bench) -> None:
    uid = await bench.pod()
    cid = await bench.container(uid, "sleep", "1000", limits=Limits(256, cpuset_cpus="0"))
    await bench.runtime.start_container(cid)
    await bench.restart()
    assert (await bench.runtime.container_limits(cid)).cpuset_cpus == "0"


def _files(bench: Bench, uid: str, cid: str, name: str) -> list[Path]:
    """The values in the pod's and the container's cgroup, if the kernel has such a file."""
    point = detect().views("/")["memory" if detect().version == 1 else ""]
    pod = f"{point.rstrip('/')}{bench.runtime.cgroup_root}/burstable/pod{uid}"
    return [file for file in (Path(pod, name), Path(pod, cid, name)) if file.exists()]


@pytest.mark.parametrize("name", ["memory.min", "memory.low", "memory.soft_limit_in_bytes"])
async def test_memory_protection_set_by_others_is_kept(bench: Bench, name: str) -> None:
    uid = await bench.pod(Limits(512, None, 256 * MIB))
    cid = await bench.container(uid, "sleep", "1000", limits=Limits(256, None, 64 * MIB))
    await bench.runtime.start_container(cid)
    files = _files(bench, uid, cid, name) if bench.kind != "fake" else []
    if not files:
        pytest.skip(f"no {name} here")
    for file in files:
        file.write_text(str(16 * MIB))
    for mib in (96, 48):
        await bench.runtime.update_container(cid, LimitsChange(512, 60_000, mib * MIB))
        await bench.runtime.update_pod(uid, LimitsChange(1024, 90_000, 2 * mib * MIB))
        assert [int(file.read_text()) for file in files] == [16 * MIB] * 2


async def test_a_container_never_swaps(bench: Bench) -> None:
    uid = await bench.pod()
    cid = await bench.container(uid, "sleep", "1000", limits=Limits(256, None, 64 * MIB))
    await bench.runtime.start_container(cid)
    version = detect().version if bench.kind != "fake" else 0
    name = "memory.swap.max" if version == 2 else "memory.memsw.limit_in_bytes"
    files = _files(bench, uid, cid, name) if version else []
    if not files:
        pytest.skip("no swap is accounted here")
    for mib in (64, 128, 32):
        await bench.runtime.update_container(cid, LimitsChange(memory_bytes=mib * MIB))
        # On v1 the limit covers memory and swap together.
        assert int(files[1].read_text()) == (0 if version == 2 else mib * MIB)


async def test_memory_goes_up_and_down_many_times(bench: Bench) -> None:
    uid = await bench.pod()
    cid = await bench.container(uid, "sleep", "1000", limits=Limits(256, None, 64 * MIB))
    await bench.runtime.start_container(cid)
    for mib in (128, 32, 256, 16, 64):
        await bench.runtime.update_container(cid, LimitsChange(memory_bytes=mib * MIB))
        assert (await bench.runtime.container_limits(cid)).memory_bytes == mib * MIB


async def test_a_container_may_not_have_more_cpu_than_its_pod(bench: Bench) -> None:
    if bench.kind != "fake" and detect().version == 2:
        pytest.skip("cgroup v2 lets a child's quota exceed its parent's; the parent's holds")
    uid = await bench.pod(Limits(1024, 100_000, None))
    cid = await bench.container(uid, "sleep", "1000", limits=Limits(256, 50_000, None))
    await bench.runtime.start_container(cid)
    with pytest.raises(RuntimeFailure, match="Invalid argument"):
        await bench.runtime.update_container(cid, LimitsChange(cpu_quota_us=150_000))
    with pytest.raises(RuntimeFailure, match="Invalid argument"):
        await bench.runtime.update_pod(uid, LimitsChange(cpu_quota_us=40_000))
    assert (await bench.runtime.container_limits(cid)).cpu_quota_us == 50_000
    assert (await bench.runtime.pod_limits(uid)).cpu_quota_us == 100_000


async def test_a_container_that_ended_does_not_hold_its_pods_cpu(bench: Bench) -> None:
    uid = await bench.pod(Limits(1024, 100_000, None))
    cid = await bench.container(uid, "true", limits=Limits(256, 80_000, None))
    await bench.runtime.start_container(cid)
    await bench.event("exited", cid)
    await bench.runtime.update_pod(uid, LimitsChange(cpu_quota_us=20_000))
    assert (await bench.runtime.pod_limits(uid)).cpu_quota_us == 20_000


async def test_a_memory_limit_below_usage_is_refused_and_kills_no_process(bench: Bench) -> None:
    uid = await bench.pod(Limits(512, None, 256 * MIB))
    cid = await bench.hog(uid, 64, Limits(256, None, 128 * MIB))
    with pytest.raises(BelowUsage) as refusal:
        await bench.runtime.update_container(cid, LimitsChange(memory_bytes=32 * MIB))
    assert refusal.value.usage_bytes > refusal.value.limit_bytes == 32 * MIB
    assert (await bench.runtime.container_limits(cid)).memory_bytes == 128 * MIB
    with pytest.raises(BelowUsage):
        await bench.runtime.update_pod(uid, LimitsChange(memory_bytes=32 * MIB))
    assert (await bench.runtime.pod_limits(uid)).memory_bytes == 256 * MIB
    state = await bench.state(cid)
    assert (state.state, (await bench.runtime.container_usage(cid)).oom_kills) == (RUNNING, 0)


async def test_a_refused_memory_limit_leaves_cpu_alone_too(bench: Bench) -> None:
    uid = await bench.pod()
    cid = await bench.hog(uid, 48, Limits(256, 50_000, 128 * MIB))
    with pytest.raises(BelowUsage):
        await bench.runtime.update_container(
            cid, LimitsChange(cpu_shares=999, cpu_quota_us=90_000, memory_bytes=16 * MIB)
        )
    assert await bench.runtime.container_limits(cid) == Limits(256, 50_000, 128 * MIB)


async def test_waiting_for_memory_ends_when_the_container_lets_go(bench: Bench) -> None:
    uid = await bench.pod()
    cid = await bench.hog(uid, 64, Limits(256, None, 128 * MIB))
    waiting = asyncio.create_task(bench.runtime.memory_below(uid, cid, 32 * MIB))
    pod_waiting = asyncio.create_task(bench.runtime.memory_below(uid, "", 32 * MIB))
    await asyncio.sleep(0)
    assert not waiting.done()
    await bench.let_go(uid, cid)
    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(waiting, pod_waiting)
    await bench.runtime.update_container(cid, LimitsChange(memory_bytes=32 * MIB))
    assert (await bench.state(cid)).state == RUNNING


async def test_a_container_that_uses_much_memory_is_noticed_and_one_that_uses_little_is_not(bench: Bench) -> None:
    uid = await bench.pod()
    cid = await bench.hog(uid, 64, Limits(256, None, 128 * MIB))
    never = asyncio.create_task(bench.runtime.memory_above(uid, cid, 120 * MIB))
    async with asyncio.timeout(WAIT_S):
        await bench.runtime.memory_above(uid, cid, 32 * MIB)
    assert not never.done()
    never.cancel()


async def test_a_container_that_is_held_back_keeps_its_limits(bench: Bench) -> None:
    uid = await bench.pod()
    cid = await bench.hog(uid, 16, Limits(256, None, 128 * MIB))
    await bench.runtime.hold_memory(cid, 115 * MIB)
    assert await bench.runtime.container_limits(cid) == Limits(256, None, 128 * MIB)
    await bench.runtime.hold_memory(cid, None)
    assert (await bench.state(cid)).state == RUNNING


async def test_a_container_out_of_memory_is_killed_and_reports_it(bench: Bench) -> None:
    uid = await bench.pod()
    annotations = {"podfit.dev/fake-memory": "constant:96Mi"}
    command = (PYTHON, "-S", "-c", HOG.format(mib=96))
    limits = Limits(256, None, 32 * MIB)
    cid = await bench.container(uid, *command, limits=limits, annotations=annotations, mounts=bench.python)
    await bench.runtime.start_container(cid)
    await bench.event("exited", cid)
    state = await bench.state(cid)
    assert (state.exit_code, state.reason) == (137, "OOMKilled")
    assert (await bench.runtime.container_usage(cid)).oom_kills >= 1


async def test_usage_is_read_from_the_kernel(bench: Bench) -> None:
    uid = await bench.pod()
    cid = await bench.hog(uid, 32)
    usage = await bench.runtime.container_usage(cid)
    assert usage.memory_bytes >= 32 * MIB and usage.working_set_bytes >= 32 * MIB and usage.processes == 1
    assert (await bench.runtime.pod_usage(uid)).memory_bytes >= 32 * MIB
    assert usage.cpu_nanos >= 0 and usage.at > 0
    [(state, same)] = await bench.runtime.usages(uid)
    assert (state.id, state.state, same.memory_bytes >= 32 * MIB) == (cid, RUNNING, True)


async def test_only_what_runs_in_a_pod_that_is_alive_has_usages(bench: Bench) -> None:
    uid = await bench.pod()
    ended, running = [await bench.container(uid, "sleep", "1000", name=name) for name in ("c1", "c2")]
    assert await bench.runtime.usages(uid) == []
    for cid in (ended, running):
        await bench.runtime.start_container(cid)
    await bench.runtime.stop_container(ended, 0.0)
    assert [state.id for state, _ in await bench.runtime.usages(uid)] == [running]
    await bench.runtime.stop_pod(uid)
    assert await bench.runtime.usages(uid) == await bench.runtime.usages("none") == []


async def test_pods_run_on_without_the_agent_and_are_found_again(bench: Bench) -> None:
    annotations = {"podfit.dev/pod": "{}"}
    uid = await bench.pod(Limits(512, 80_000, 96 * MIB), annotations=annotations, labels={"app": "web"})
    cid = await bench.container(uid, "sleep", "1000", limits=Limits(307, 40_000, 64 * MIB))
    short = await bench.container(uid, "sh", "-c", "sleep 0.05; exit 9", name="c2")
    await bench.runtime.start_container(cid)
    await bench.runtime.start_container(short)
    before = await bench.state(cid)
    await bench.restart()
    pod = await bench.runtime.pod(uid)
    assert (
        pod is not None and pod.alive and pod.config.annotations == annotations and pod.config.labels == {"app": "web"}
    )
    assert await bench.state(cid) == before
    if (await bench.state(short)).state == RUNNING:
        await bench.event("exited", short)
    state = await bench.state(short)
    assert (state.state, state.exit_code) == (EXITED, 9)
    await bench.runtime.update_container(cid, LimitsChange(cpu_quota_us=30_000))
    assert await bench.runtime.container_limits(cid) == Limits(307, 30_000, 64 * MIB)
    await bench.runtime.stop_container(cid, grace_s=0)
    assert (await bench.state(cid)).exit_code == 137


async def test_stopping_a_pod_ends_its_containers_and_keeps_their_story(bench: Bench) -> None:
    uid = await bench.pod()
    first = await bench.container(uid, "sleep", "1000", name="c1")
    second = await bench.container(uid, "sleep", "1000", name="c2")
    for cid in (first, second):
        await bench.runtime.start_container(cid)
    await bench.runtime.stop_pod(uid)
    pod = await bench.runtime.pod(uid)
    assert pod is not None and not pod.alive
    assert [(item.name, item.state, item.exit_code) for item in pod.containers] == [
        ("c1", EXITED, 137),
        ("c2", EXITED, 137),
    ]
    with pytest.raises(CannotRun):
        await bench.container(uid, "true", name="c3")


async def test_nothing_is_made_in_a_pod_that_is_being_stopped(bench: Bench) -> None:
    uid = await bench.pod()
    await bench.runtime.start_container(await bench.container(uid, "sleep", "1000"))
    stopping = asyncio.ensure_future(bench.runtime.stop_pod(uid))
    await asyncio.sleep(0)
    with pytest.raises(CannotRun):
        await bench.container(uid, "sleep", "1000", attempt=1)
    await stopping


async def test_a_container_that_starts_while_its_pod_is_stopped_ends_with_it(bench: Bench) -> None:
    uid = await bench.pod()
    cid = await bench.container(uid, "sleep", "1000")
    starting = asyncio.ensure_future(bench.runtime.start_container(cid))
    await asyncio.sleep(0)
    await bench.runtime.stop_pod(uid)
    with suppress(CannotRun):
        await starting
    await bench.event("exited", cid)
    assert (await bench.state(cid)).state == EXITED


async def test_a_stopped_pod_may_be_started_again(bench: Bench) -> None:
    uid = await bench.pod(Limits(512, None, 64 * MIB))
    first = await bench.container(uid, "sleep", "1000")
    await bench.runtime.start_container(first)
    await bench.runtime.stop_pod(uid)
    old = await bench.runtime.pod(uid)
    await bench.runtime.run_pod(old.config)
    second = await bench.container(uid, "sleep", "1000", attempt=1)
    await bench.runtime.start_container(second)
    pod = await bench.runtime.pod(uid)
    assert pod.alive and [item.state for item in pod.containers] == [EXITED, RUNNING]
    assert (await bench.runtime.pod_limits(uid)).memory_bytes == 64 * MIB


async def test_removal_leaves_nothing(bench: Bench) -> None:
    uid, cid = await bench.run("sh", "-c", "sleep 1000 & sleep 1000; :")
    pid = (await bench.state(cid)).pid
    await bench.runtime.remove_pod(uid)
    assert await bench.runtime.pod(uid) is None and await bench.runtime.container(cid) is None
    assert await bench.runtime.pods() == []
    if bench.kind != "fake":
        assert not os.path.exists(f"/proc/{pid}")
        # Not glob: other programs' cgroups may vanish during the walk.
        assert [path for path, _, _ in os.walk("/sys/fs/cgroup") if path.endswith(f"/pod{uid}")] == []
    if bench.kind == "process":
        assert list((bench.folder / "data" / "containers").iterdir()) == []


async def test_calls_may_be_repeated(bench: Bench) -> None:
    uid, cid = await bench.run("sleep", "1000")
    pod = await bench.runtime.pod(uid)
    await bench.runtime.run_pod(pod.config)
    await bench.runtime.start_container(cid)
    for _ in range(2):
        await bench.runtime.stop_container(cid, grace_s=0)
        await bench.runtime.stop_pod(uid)
    for _ in range(2):
        await bench.runtime.remove_container(cid)
        await bench.runtime.remove_pod(uid)


async def test_attempts_of_a_container_are_kept_oldest_first(bench: Bench) -> None:
    uid = await bench.pod()
    for attempt in range(3):
        cid = await bench.container(uid, "true", attempt=attempt)
        await bench.runtime.start_container(cid)
        await bench.event("exited", cid)
    pod = await bench.runtime.pod(uid)
    assert [item.attempt for item in pod.containers] == [0, 1, 2]


async def test_missing_objects_are_not_found(bench: Bench) -> None:
    for call in (
        bench.runtime.update_pod("none", LimitsChange(cpu_shares=2)),
        bench.runtime.update_container("none", LimitsChange(cpu_shares=2)),
        bench.runtime.container_limits("none"),
        bench.runtime.pod_usage("none"),
        bench.runtime.start_container("none"),
        bench.runtime.exec("none", ["true"]),
    ):
        with pytest.raises(NotFound):
            await call
    assert await bench.runtime.pod("none") is None and await bench.runtime.container("none") is None


async def test_an_invalid_image_name_cannot_be_pulled(bench: Bench) -> None:
    with pytest.raises(ImageMissing):
        await bench.runtime.pull_image("not an image")


async def test_an_image_that_a_container_can_run_on_has_a_status(bench: Bench) -> None:
    found = await bench.runtime.image_status(bench.image)
    assert found is not None and found.id
