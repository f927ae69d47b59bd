"""Isolation of a container: its own processes, files, host name, user and capabilities."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from podfit.agent.runtimes.values import CannotRun, Limits, Mount, RuntimeFailure, Security

MIB = 1 << 20


async def test_the_program_is_pid_1_among_its_own_processes(machine: Any) -> None:
    said = await machine.says("sh", "-c", "echo $$; ls -d /proc/[0-9]* | wc -l")
    pid, processes = said.split()
    assert pid == "1" and int(processes) <= 4


async def test_it_has_the_pods_host_name_and_environment(machine: Any) -> None:
    said = await machine.says(
        "sh", "-c", "uname -n; cat /etc/hostname; echo $HOSTNAME $COLOUR", environment={"COLOUR": "red"}
    )
    assert said == "web-0\nweb-0\nweb-0 red"


async def test_it_writes_to_its_own_layer_and_not_to_the_hosts_files(machine: Any) -> None:
    name = f"/etc/podfit-test-{os.getpid()}"
    assert await machine.says("sh", "-c", f"echo mine > {name}; cat {name}") == "mine"
    assert not os.path.exists(name)


async def test_a_read_only_root_cannot_be_written_but_a_mount_can(machine: Any, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    script = "touch /etc/x 2>/dev/null && echo wrote root; touch /data/x && echo wrote data"
    mounts = (Mount(volume, "/data"),)
    assert await machine.says("sh", "-c", script, security=Security(read_only_root=True), mounts=mounts) == "wrote data"
    assert (volume / "x").exists()


async def test_mounts_may_be_read_only_files_and_nested(machine: Any, tmp_path: Path) -> None:
    outer, inner, file = tmp_path / "outer", tmp_path / "inner", tmp_path / "file"
    outer.mkdir()
    inner.mkdir()
    (inner / "here").write_text("inside")
    file.write_text("content")
    mounts = (Mount(inner, "/vol/sub/in"), Mount(outer, "/vol"), Mount(file, "/vol/file.txt", read_only=True))
    script = "cat /vol/sub/in/here; echo; cat /vol/file.txt; echo; echo x > /vol/file.txt"
    said = await machine.says("sh", "-c", script, mounts=mounts)
    assert "inside" in said and "content" in said and "Read-only" in said
    assert file.read_text() == "content"


async def test_a_mount_path_cannot_lead_out_of_the_container(machine: Any, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "mark").write_text("here")
    assert await machine.says("cat", "/safe/mark", mounts=(Mount(volume, "/../../../safe"),)) == "here"
    assert not os.path.exists("/safe")


async def test_user_groups_and_privileges_are_as_requested(machine: Any) -> None:
    security = Security(uid=1234, gid=2345, groups=(3456,), no_new_privileges=True)
    said = await machine.says("sh", "-c", "id -u; id -g; id -G; grep NoNewPrivs /proc/self/status", security=security)
    assert said.split() == ["1234", "2345", "2345", "3456", "NoNewPrivs:", "1"]


async def test_capabilities_are_dropped_permanently(machine: Any) -> None:
    def number(said: str) -> int:
        return int(said.split()[-1], 16)

    plain = number(await machine.says("grep", "CapBnd", "/proc/self/status"))
    none = number(
        await machine.says("grep", "CapEff", "/proc/self/status", security=Security(drop_capabilities=("ALL",)))
    )
    one = Security(drop_capabilities=("ALL",), add_capabilities=("NET_ADMIN",))
    assert plain >> 21 & 1 == 0 and plain & 1 == 1 and none == 0
    assert number(await machine.says("grep", "CapEff", "/proc/self/status", security=one)) == 1 << 12


async def test_runtime_default_seccomp_refuses_what_containers_do_not_need(machine: Any) -> None:
    script = "grep '^Seccomp:' /proc/self/status; unshare -U true 2>&1 | grep -o 'not permitted'"
    said = await machine.says("sh", "-c", script, security=Security(seccomp="RuntimeDefault"))
    assert said.split() == ["Seccomp:", "2", "not", "permitted"]


async def test_it_sees_its_own_limits_where_programs_look(machine: Any) -> None:
    script = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null"
    said = await machine.says("sh", "-c", script, limits=Limits(256, None, 64 * MIB))
    assert said == str(64 * MIB)


async def test_devices_are_few(machine: Any) -> None:
    said = await machine.says("sh", "-c", "echo x > /dev/null && ls /dev")
    allowed = "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"
    assert set(said.split()) <= set(allowed.split())


async def test_containers_of_a_pod_share_processes_if_it_says_so(machine: Any) -> None:
    uid = await machine.pod(share_process_namespace=True)
    await machine.start(uid, "sleep", "987", name="c1")
    other = await machine.start(uid, "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '", name="c2")
    await machine.ended(other)
    assert "sleep 987" in machine.text(uid, "c2")
    await machine.runtime.stop_pod(uid)


async def test_a_program_in_the_hosts_pid_namespace_leaves_no_children_behind(machine: Any) -> None:
    uid = await machine.pod(host_pid=True)
    cid = await machine.start(uid, "sh", "-c", "sleep 1000 & echo $!")
    await machine.ended(cid)
    await machine.runtime.remove_pod(uid)
    assert not os.path.exists(f"/proc/{machine.text(uid).strip()}")


async def test_unsupported_mounts_are_reported(machine: Any, tmp_path: Path) -> None:
    uid = await machine.pod()
    with pytest.raises(CannotRun, match="missing"):
        await machine.start(uid, "true", mounts=(Mount(tmp_path / "missing", "/data"),))


async def test_a_small_memory_limit_does_not_hinder_the_start(machine: Any) -> None:
    uid = await machine.pod()
    cid = await machine.start(uid, "sh", "-c", "echo up", limits=Limits(256, None, 2 * MIB))
    assert (await machine.ended(cid)).exit_code == 0


async def test_cpu_above_the_quota_is_throttled_and_counted(machine: Any) -> None:
    uid = await machine.pod()
    burn = "import time\nend = time.monotonic() + 0.6\nwhile time.monotonic() < end: pass\n"
    cid = await machine.start(uid, sys.executable, "-S", "-c", burn, limits=Limits(256, 10_000, None))
    await machine.ended(cid)
    usage = await machine.runtime.container_usage(cid)
    assert usage.throttled_periods >= 1 and usage.throttled_nanos > 0 and usage.cpu_nanos > 0


async def test_the_image_host_is_the_nodes_own_files_and_says_so_by_its_name(machine: Any) -> None:
    container = await machine.start(await machine.pod(), "sleep", "100")
    state = await machine.runtime.container(container)
    assert (state.image_id, state.warning) == ("host", "")


async def test_an_absent_image_runs_on_nothing(machine: Any) -> None:
    assert await machine.runtime.image_status("nginx") is None
    with pytest.raises(RuntimeFailure):
        await machine.start(await machine.pod(), "sleep", "100", image="nginx")


async def test_a_container_that_falls_back_to_the_hosts_files_names_what_runs(machine: Any) -> None:
    await machine.runtime.close()
    machine.runtime = machine.make(image_fallback="host")
    await machine.runtime.open()
    container = await machine.start(await machine.pod(), "sleep", "100", image="nginx:1.25")
    state = await machine.runtime.container(container)
    assert 'Image "nginx:1.25" is not on this node' in state.warning and "`sleep 100`" in state.warning


async def test_a_kernel_parameter_is_set_for_the_pod_alone(machine: Any) -> None:
    host = Path("/proc/sys/kernel/shm_rmid_forced")
    before = host.read_text()
    other = "0" if before == "1\n" else "1"
    said = await machine.says("cat", str(host), pod={"sysctls": {"kernel.shm_rmid_forced": other}})
    assert said == other and host.read_text() == before


async def test_no_container_starts_beside_namespaces_that_could_not_be_made(machine: Any) -> None:
    """The second container does not start either: it would share the host's namespaces."""
    uid = await machine.pod(sysctls={"kernel.shm_rmid_forced": "nonsense"})
    for name in ("c1", "c2"):
        with pytest.raises(CannotRun, match="Invalid argument"):
            await machine.start(uid, "sleep", "1000", name=name)


async def test_a_parameter_of_the_network_is_refused_in_the_hosts_network(machine: Any) -> None:
    with pytest.raises(RuntimeFailure, match="sysctl net.ipv4.tcp_syncookies cannot be set"):
        await machine.pod(sysctls={"net.ipv4.tcp_syncookies": "0"})
