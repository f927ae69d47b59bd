"""A container cannot leave its volumes, open devices or read podfit's own files, as tested from inside."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from podfit.agent.runtimes.cgroups import devices
from podfit.agent.runtimes.process.keeper import beneath
from podfit.agent.runtimes.values import CannotRun, Mount, Security, hidden_folder

OPEN_FUSE = """
import os, stat
os.mknod("/made", stat.S_IFCHR | 0o600, os.makedev(10, 229))
try:
    os.open("/made", os.O_RDWR)
    print("opened")
except OSError as error:
    print(error.strerror)
print(len(os.urandom(4)), open("/dev/null", "w").write("x"))
"""


async def test_a_device_file_can_be_made_but_not_opened(machine: Any) -> None:
    assert await machine.says(sys.executable, "-c", OPEN_FUSE) == "Operation not permitted\n4 1"


@pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="this machine has no such device")
async def test_a_privileged_container_opens_devices(machine: Any) -> None:
    said = await machine.says(sys.executable, "-c", OPEN_FUSE, security=Security(privileged=True))
    assert "opened" in said


async def test_where_devices_cannot_be_confined_no_device_file_can_be_made(
    machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(machine.runtime._cgroups), "confine_devices", lambda self, group: False)
    assert "Operation not permitted" in await machine.says("sh", "-c", "mknod /made c 10 229 2>&1")


async def test_the_data_directory_is_not_visible(machine: Any, tmp_path: Path) -> None:
    secret = tmp_path / "pki" / "ca.key"
    secret.parent.mkdir()
    secret.write_text("secret")
    said = await machine.says("sh", "-c", f"cat {secret} 2>&1; ls -A {tmp_path}; touch {tmp_path}/x 2>&1")
    assert "secret" not in said.splitlines() and "No such file" in said and "data" not in said.splitlines()
    mounts = (Mount(Path("/"), "/host"),)
    said = await machine.says("sh", "-c", f"cat /host{secret} 2>&1; ls -A /host{tmp_path}", mounts=mounts)
    assert "secret" not in said.splitlines() and "No such file" in said


def test_all_of_a_clusters_directory_is_hidden() -> None:
    assert hidden_folder(Path("/data/nodes/n1")) == Path("/data")
    assert hidden_folder(Path("/var/lib/agent")) == Path("/var/lib/agent")


async def test_a_part_of_a_volume_is_mounted(machine: Any, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    (volume / "a" / "b").mkdir(parents=True)
    (volume / "a" / "b" / "mark").write_text("here")
    (volume / "link").symlink_to("a/b")
    for sub in ("a/b", "link"):
        assert await machine.says("cat", "/part/mark", mounts=(Mount(volume, "/part", sub_path=sub),)) == "here"


@pytest.mark.parametrize("link", ["/etc", "../outside", "a/../../outside"])
async def test_a_link_that_leads_out_of_a_volume_is_not_mounted(machine: Any, tmp_path: Path, link: str) -> None:
    volume = tmp_path / "volume"
    (volume / "a").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (volume / "way").symlink_to(link)
    with pytest.raises(CannotRun, match="Invalid cross-device link"):
        await machine.says("ls", "/part", mounts=(Mount(volume, "/part", sub_path="way"),))


def exchange(volume: Path, stop: threading.Event) -> None:
    """Acts as a hostile sidecar: the path alternates between a folder and a link to the outside."""
    while not stop.is_set():
        os.rename(volume / "way", volume / "folder")
        os.symlink("../outside", volume / "way")
        os.unlink(volume / "way")
        os.rename(volume / "folder", volume / "way")


def test_a_path_that_changes_while_it_is_walked_never_leads_out(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    (volume / "way").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    inside, stop = (volume / "way").stat().st_ino, threading.Event()
    swapping = threading.Thread(target=exchange, args=(volume, stop))
    swapping.start()
    root, seen = os.open(volume, os.O_PATH), set()
    try:
        for tries in range(200_000):
            if tries > 3000 and seen:
                break
            try:
                found = beneath.open_beneath(root, "way")
            except OSError:
                continue
            seen.add(os.fstat(found).st_ino)
            os.close(found)
    finally:
        stop.set()
        swapping.join()
        os.close(root)
    assert seen == {inside}


async def test_a_container_started_while_its_volume_changes_never_sees_the_outside(
    machine: Any, tmp_path: Path
) -> None:
    volume = tmp_path / "volume"
    (volume / "way").mkdir(parents=True)
    (volume / "way" / "mark").write_text("inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "mark").write_text("outside")
    stop = threading.Event()
    swapping = threading.Thread(target=exchange, args=(volume, stop))
    swapping.start()
    try:
        said = set()
        for _ in range(20):
            try:
                said.add(await machine.says("cat", "/part/mark", mounts=(Mount(volume, "/part", sub_path="way"),)))
            except CannotRun:
                await asyncio.sleep(0)
    finally:
        stop.set()
        swapping.join()
    assert "outside" not in said


async def test_a_mount_below_another_volume_cannot_be_led_out_by_it(machine: Any, tmp_path: Path) -> None:
    shared, inner = tmp_path / "shared", tmp_path / "inner"
    shared.mkdir()
    inner.mkdir()
    made = f"/podfit-made-{os.getpid()}"
    (shared / "way").symlink_to(f"../../../../../..{made}")
    (inner / "mark").write_text("here")
    said = await machine.says("cat", f"{made}/deep/mark", mounts=(Mount(shared, "/vol"), Mount(inner, "/vol/way/deep")))
    assert said == "here" and not os.path.exists(made)


def test_the_device_program_jumps_to_instructions_of_its_own() -> None:
    text = devices.program()
    count = len(text) // 8
    for at in range(count):
        opcode, _, offset = text[at * 8], text[at * 8 + 1], int.from_bytes(text[at * 8 + 2 : at * 8 + 4], "little")
        if opcode in (0x15, 0x55):
            assert at + 1 + offset < count
