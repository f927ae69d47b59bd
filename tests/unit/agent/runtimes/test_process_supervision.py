"""Which processes die with which: the agent, the keeper, the containers."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from podfit.agent.node.disk_usage import measure
from podfit.agent.runtimes.process import support
from podfit.agent.runtimes.values import RUNNING, CannotRun, Limits, LimitsChange, RuntimeFailure, Security

AGENT = """
import asyncio, os, signal, sys
from pathlib import Path
from podfit.agent.runtimes.base import ContainerConfig, Limits, PodConfig
from podfit.agent.runtimes.process.runtime import ProcessRuntime

async def main(data, root, log):
    runtime = ProcessRuntime(Path(data), cgroup_root=root)
    await runtime.open()
    await runtime.run_pod(PodConfig("orphan", "web", "default", "Burstable", Limits(512), "web-0", Path(data)))
    script = "while :; do echo tick; sleep 0.02; done"
    config = ContainerConfig("c1", 0, "host", ("sh", "-c", script), (), {}, "", (), Limits(256), Path(log))
    cid = await runtime.create_container("orphan", config)
    await runtime.start_container(cid)
    print(cid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(*sys.argv[1:]))
"""


def keeper_pid(data: Path) -> int:
    """The holder of the keeper's lock, according to the kernel."""
    inode = (data / "keeper.lock").stat().st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
            return int(fields[4])
    raise AssertionError("no keeper")


def lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


async def grows(file: Path) -> None:
    before = lines(file)
    async with asyncio.timeout(30):
        while lines(file) <= before:
            await asyncio.sleep(0.005)


async def test_an_agent_killed_outright_leaves_its_pods_running_and_logging(machine: Any) -> None:
    await machine.runtime.close()
    log = machine.folder / "orphan.log"
    arguments = ["-c", AGENT, str(machine.folder / "data"), machine.root, str(log)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": ":".join(sys.path)}
    )
    output, _ = await process.communicate()
    cid = output.decode().strip()
    assert process.returncode == -signal.SIGKILL
    await grows(log)
    machine.runtime = machine.make()
    await machine.runtime.open()
    state = await machine.runtime.container(cid)
    assert state.state == RUNNING
    await machine.runtime.update_container(cid, LimitsChange(cpu_shares=99))
    assert (await machine.runtime.container_limits(cid)).cpu_shares == 99
    await machine.runtime.stop_container(cid, 0)
    assert (await machine.runtime.container(cid)).exit_code == 137


async def test_a_killed_keeper_is_replaced_and_containers_keep_running(machine: Any) -> None:
    uid = await machine.pod()
    cid = await machine.start(uid, "sh", "-c", "while :; do echo tick; sleep 0.02; done")
    await machine.said(uid, "tick")
    old = keeper_pid(machine.folder / "data")
    lost = asyncio.Event()
    look = machine.runtime._link._lost
    machine.runtime._link._lost = lambda: (look(), lost.set())
    os.kill(old, signal.SIGKILL)
    async with asyncio.timeout(30):
        await lost.wait()
    assert keeper_pid(machine.folder / "data") != old
    assert (await machine.runtime.container(cid)).state == RUNNING
    await grows(machine.log_file(uid))
    second = await machine.start(uid, "sh", "-c", "uname -n", name="c2")
    await machine.ended(second)
    assert machine.text(uid, "c2") == "web-0"
    await machine.runtime.stop_container(cid, 0)
    state = await machine.runtime.container(cid)
    assert (state.exit_code, state.reason) == (137, "ContainerStatusUnknown")


async def test_a_keeper_with_nothing_to_keep_leaves(machine: Any) -> None:
    pid = keeper_pid(machine.folder / "data")
    descriptor = os.pidfd_open(pid)
    gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(descriptor, gone.set)
    await machine.runtime.close()
    async with asyncio.timeout(30):
        await gone.wait()
    asyncio.get_running_loop().remove_reader(descriptor)
    os.close(descriptor)
    machine.runtime = machine.make()
    await machine.runtime.open()


async def test_unknown_cgroups_are_removed_at_the_start(machine: Any) -> None:
    uid = await machine.pod()
    cid = await machine.start(uid, "sleep", "1000")
    group = machine.runtime._pods[uid].record.group
    cgroups = machine.runtime._cgroups
    cgroups.create(f"{machine.root}/burstable/podgone/deep", Limits())
    cgroups.create(f"{group}/half-made", Limits())
    await machine.runtime.close()
    machine.runtime = machine.make()
    await machine.runtime.open()
    assert sorted(cgroups.below(f"{machine.root}/burstable")) == sorted([group, f"{group}/{cid}"])
    assert (await machine.runtime.container(cid)).state == RUNNING


async def test_a_pod_whose_cgroup_is_gone_is_not_alive(machine: Any) -> None:
    uid = await machine.pod()
    await machine.runtime.close()
    machine.runtime._cgroups.remove(machine.runtime._pods[uid].record.group)
    machine.runtime = machine.make()
    await machine.runtime.open()
    assert not (await machine.runtime.pod(uid)).alive


async def test_a_damaged_record_is_as_good_as_none(machine: Any) -> None:
    uid, kept = await machine.pod(), await machine.pod()
    await machine.runtime.close()
    (machine.folder / "data" / "pods" / f"{uid}.json").write_text('{"config": {"uid"')
    machine.runtime = machine.make()
    await machine.runtime.open()
    assert [pod.config.uid for pod in await machine.runtime.pods()] == [kept]


def sizes(folder: Path) -> list[int]:
    found = []
    for file in folder.iterdir() if folder.exists() else ():
        with contextlib.suppress(FileNotFoundError):
            found.append(file.stat().st_size)
    return found


async def test_a_flood_of_output_stays_within_the_size_of_its_log(machine: Any) -> None:
    uid = await machine.pod()
    folder = machine.log_file(uid).parent
    written = 40 << 20
    cid = await machine.start(
        uid, "sh", "-c", f"yes | head -c {written}; echo the end", log_max_bytes=1 << 20, log_max_files=3
    )
    async with asyncio.timeout(120):
        while (await machine.runtime.container(cid)).state == RUNNING:
            assert sum(sizes(folder)) <= 3 << 20
            await asyncio.sleep(0.01)
    assert [size > (1 << 20) - 100 for size in sorted(sizes(folder))] == [False, True, True]
    assert machine.text(uid).endswith("the end")


async def test_all_output_of_a_container_is_in_its_log(machine: Any) -> None:
    uid = await machine.pod()
    await machine.ended(await machine.start(uid, "sh", "-c", "seq 1 20000; printf unfinished"))
    said = machine.text(uid).splitlines()
    assert said == [*map(str, range(1, 20001)), "unfinished"]


async def test_a_terminal_has_a_size_and_takes_input(machine: Any) -> None:
    uid = await machine.pod()
    cid = await machine.start(uid, "sleep", "1000")
    stream = await machine.runtime.exec(cid, ["sh"], tty=True, stdin=True)
    await stream.resize(91, 33)
    await stream.write(b"stty size; test -t 0 && echo term''inal; exit 6\n")
    seen = b""
    while (piece := await stream.read()) is not None:
        seen += piece[1]
    assert b"33 91" in seen and b"terminal" in seen
    assert await stream.wait() == 6
    await stream.close()


async def output_of(stream: Any) -> bytes:
    seen = b""
    while (piece := await stream.read()) is not None:
        seen += piece[1]
    await stream.close()
    return seen


@pytest.mark.parametrize("security", [Security(), Security(uid=1000), Security(privileged=True)])
async def test_a_terminal_has_a_name_inside_the_container(machine: Any, security: Security) -> None:
    uid = await machine.pod()
    script = "t=$(tty); test -w $t && echo $t; exec sleep 1000"
    cid = await machine.start(uid, "sh", "-c", script, tty=True, security=security)
    await machine.said(uid, "/dev/pts/")
    seen = await output_of(await machine.runtime.exec(cid, ["sh", "-c", "t=$(tty); test -w $t && echo $t"], tty=True))
    assert seen.startswith(b"/dev/pts/")
    assert seen.decode().strip() != machine.text(uid).strip()


async def test_an_exec_with_a_terminal_that_cannot_start_leaves_nothing_open(machine: Any) -> None:
    uid = await machine.pod()
    cid = await machine.start(uid, "sleep", "1000")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(CannotRun, match="no such file"):
        await machine.runtime.exec(cid, ["/nonexistent"], tty=True)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("tty", [False, True])
async def test_an_exec_that_is_called_off_while_it_starts_leaves_nothing(
    machine: Any, tty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    uid = await machine.pod()
    cid = await machine.start(uid, "sleep", "1000")
    ended = asyncio.get_running_loop().create_future()
    hear = lambda message: message["event"] == "exec" and ended.set_result(None)  # noqa: E731
    monkeypatch.setattr(machine.runtime._link, "_event", hear)
    before = len(os.listdir("/proc/self/fd"))
    exec = asyncio.ensure_future(machine.runtime.exec(cid, ["sleep", "4322"], tty=tty, stdin=True))
    await asyncio.sleep(0)
    assert len(os.listdir("/proc/self/fd")) > before
    exec.cancel()
    await asyncio.wait({exec})
    assert exec.cancelled()
    assert len(os.listdir("/proc/self/fd")) == before
    async with asyncio.timeout(30):
        await ended  # killed or, without a terminal to go to, by itself


async def test_a_container_may_debug_another_and_ends_with_it(machine: Any) -> None:
    uid = await machine.pod()
    target = await machine.start(uid, "sh", "-c", "sleep 4321")
    look = await machine.start(uid, "sh", "-c", "cat /proc/1/cmdline; echo; exec sleep 1234", name="look", target="c1")
    await machine.said(uid, "4321", "look")
    await machine.runtime.stop_container(target, 0)
    assert (await machine.ended(look)).exit_code == 137


async def test_a_container_whose_target_container_is_missing_does_not_start(machine: Any) -> None:
    uid = await machine.pod()
    with pytest.raises(CannotRun, match="target container is not running"):
        await machine.start(uid, "true", name="look", target="c1")


async def test_a_keeper_without_a_client_exits(tmp_path: Path) -> None:
    """As when an agent is ended between starting its keeper and talking to it."""
    (tmp_path / "containers").mkdir()
    program = (
        "import sys\nfrom podfit.agent.runtimes.process.keeper import main\nmain.LONELY_S = 0.1\n"
        "main.main(sys.argv[1], int(sys.argv[2]))"
    )
    ready, theirs = os.pipe()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(tmp_path), str(theirs), pass_fds=(theirs,)
    )
    os.close(theirs)
    assert await process.wait() == 0
    assert await asyncio.to_thread(os.read, ready, 100) == b""
    os.close(ready)
    with (tmp_path / "keeper.lock").open() as lock:
        async with asyncio.timeout(20):
            await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)


async def test_attach_passes_input_both_ways(machine: Any) -> None:
    uid = await machine.pod()
    cid = await machine.start(uid, "cat", stdin=True, stdin_once=True)
    stream = await machine.runtime.attach(cid, stdin=True)
    data = b"x" * 1023 + b"\n"
    writer = asyncio.create_task(feed(stream, data * 512))
    received = 0
    while (piece := await stream.read()) is not None:
        received += len(piece[1])
    await writer
    assert received == len(data) * 512
    assert await stream.wait() == 0
    await stream.close()


async def feed(stream: Any, data: bytes) -> None:
    await stream.write(data)
    await stream.close_stdin()


async def test_attach_to_a_terminal(machine: Any) -> None:
    uid = await machine.pod()
    cid = await machine.start(uid, "sh", tty=True, stdin=True)
    stream = await machine.runtime.attach(cid, stdin=True)
    await stream.resize(77, 22)
    await stream.write(b"stty size; exit 3\n")
    seen = b""
    while (piece := await stream.read()) is not None:
        seen += piece[1]
    assert b"22 77" in seen and await stream.wait() == 3
    await stream.close()


async def test_port_forward_reaches_a_server_in_the_pod(machine: Any) -> None:
    uid = await machine.pod()
    program = (
        "import socket\ns = socket.create_server(('127.0.0.1', 0))\nprint(s.getsockname()[1], flush=True)\n"
        "c, _ = s.accept()\nc.sendall(c.recv(99).upper())\nc.close()\n"
    )
    await machine.start(uid, sys.executable, "-S", "-c", program)
    async with asyncio.timeout(30):
        while not machine.text(uid):
            await asyncio.sleep(0.005)
    stream = await machine.runtime.connect(uid, int(machine.text(uid)))
    await stream.write(b"hello")
    assert await stream.read() == b"HELLO"
    assert await stream.read() == b""
    await stream.close()
    with pytest.raises(RuntimeFailure, match="cannot connect"):
        await machine.runtime.connect(uid, 1)


async def test_launch_files_hold_what_the_keeper_needs_and_state_files_how_it_ended(machine: Any) -> None:
    uid = await machine.pod()
    cid = await machine.start(uid, "sh", "-c", "exit 5")
    await machine.ended(cid)
    state = json.loads((machine.folder / "data" / "containers" / cid / "state.json").read_text())
    assert (state["exit_code"], state["reason"]) == (5, "Error") and state["finished_at"] >= state["started_at"]


def test_the_error_on_a_machine_without_cgroups_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podfit.agent.runtimes.cgroups.mounted", lambda: ({}, ""))
    monkeypatch.setattr(support, "has_capability", lambda number: False)
    with pytest.raises(RuntimeFailure, match="CAP_SYS_ADMIN.*no cgroup hierarchy"):
        support.require_support()


async def test_data_that_a_container_appends_to_its_hosts_file_is_measured(machine: Any) -> None:
    uid = await machine.pod(etc_hosts="127.0.0.1\tlocalhost\n")
    await machine.ended(await machine.start(uid, "sh", "-c", "head -c 2000000 /dev/zero >> /etc/hosts"))
    assert sum(measure(file)[0] for file in await machine.runtime.pod_files(uid)) >= 2_000_000


async def test_the_layers_of_exited_containers_are_deleted_on_demand_and_those_of_running_ones_kept(
    machine: Any,
) -> None:
    uid = await machine.pod()
    ended = await machine.start(uid, "sh", "-c", "echo some > /written-by-a-test", name="c1")
    await machine.ended(ended)
    running = await machine.start(uid, "sh", "-c", "echo more > /written-by-a-test; echo done; sleep 1000", name="c2")
    await machine.said(uid, "done", "c2")
    layers = [await machine.runtime.writable_layer(cid) for cid in (ended, running)]
    if not (layers[1] / "written-by-a-test").exists():
        pytest.skip("no overlay here: containers have no layer of their own")
    await machine.runtime.reclaim_disk()
    assert not layers[0].exists()
    assert (layers[1] / "written-by-a-test").read_text() == "more\n"
    assert (await machine.runtime.container(ended)).exit_code == 0
    await machine.runtime.stop_container(running, 0)
