"""On a full disk the store loses nothing, rejects writes that grow, and gains space from deletions."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.disks import fill, needs_root, small_disk

import podfit
from podfit.store.backend import Unavailable
from podfit.store.disk.sqlite import FULL, SqliteStore

pytestmark = needs_root
SOURCE = str(Path(podfit.__file__).parent.parent)
PATIENCE_S = 60.0

# Fills the disk with objects, then deletes, shrinks and rewrites them; prints what was acknowledged.
WRITER = """
import asyncio, os, sys
from podfit.store.backend import Unavailable
from podfit.store.disk.sqlite import SqliteStore

async def main(path):
    store = SqliteStore(path)
    await store.open()
    number = 0
    try:
        while True:
            record = await store.put(f"k/{number}", b"%d " % number + bytes(9000))
            os.write(1, f"k/{number} {record.modified} 9000\\n".encode())
            number += 1
    except Unavailable:
        pass
    os.write(1, b"full\\n")
    for turn in range(1000000):
        key = f"k/{turn % number}"
        size = 8999 - turn // number
        record = await store.put(key, b"%d " % (turn % number) + bytes(size))
        os.write(1, f"{key} {record.modified} {size}\\n".encode())

asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 32 << 20, request.param) as folder:
        yield folder


async def filled(store: SqliteStore, size: int, below: str = "f") -> int:
    """Writes objects until the disk is full; returns their number."""
    number = 0
    with pytest.raises(Unavailable, match=FULL):
        while True:
            await store.put(f"{below}/{number:06d}", bytes(size))
            number += 1
    return number


async def until_writable(store: SqliteStore) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while store.problem:
            await asyncio.sleep(0.05)


async def test_deletes_work_at_a_disk_that_the_store_filled_and_room_comes_back(disk: Path) -> None:
    store = SqliteStore(disk / "s.db")
    await store.open()
    number = await filled(store, 9000, "k")
    assert store.problem == FULL
    for index in range(0, number, 2):
        await store.delete(f"k/{index:06d}")
    await until_writable(store)
    for index in range(number // 8):
        await store.put(f"n/{index}", bytes(9000))
    await store.close()
    again = SqliteStore(disk / "s.db")
    await again.open()
    assert again.count("k/") == number // 2 and again.count("n/") == number // 8
    await again.close()


async def test_deletes_shrinking_writes_and_small_updates_work_at_a_disk_that_others_filled(disk: Path) -> None:
    store = SqliteStore(disk / "s.db")
    await store.open()
    for number in range(200):
        await store.put(f"k/{number}", bytes(9000))
    fill(disk / "ballast")
    await filled(store, 9000)
    for turn in range(10):
        for number in range(200):
            await store.put(f"k/{number}", bytes(8999 - turn))
    assert len((await store.put("k/0", bytes(9100))).value) == 9100
    with pytest.raises(Unavailable, match=FULL):
        await store.put("k/1", bytes(20_000))
    with pytest.raises(Unavailable, match=FULL):
        await store.put("new", b"")
    for number in range(200):
        await store.delete(f"k/{number}")
    assert store.count("k/") == 0
    (disk / "ballast").unlink()
    await until_writable(store)
    await store.put("new", bytes(20_000))
    await store.close()


async def test_growth_on_a_full_disk_is_bounded_and_deletes_still_succeed(disk: Path) -> None:
    store = SqliteStore(disk / "s.db")
    await store.open()
    for number in range(100):
        await store.put(f"k/{number}", b"")
    fill(disk / "ballast")
    await filled(store, 9000)
    with pytest.raises(Unavailable, match=FULL):
        for turn in range(1, 1000):
            for number in range(100):
                await store.put(f"k/{number}", bytes(turn * 1000))
    for number in range(100):
        await store.delete(f"k/{number}")
    await store.close()


async def test_a_store_stopped_at_a_full_disk_starts_there_and_deletes(disk: Path) -> None:
    store = SqliteStore(disk / "s.db")
    await store.open()
    for number in range(50):
        await store.put(f"k/{number}", bytes(9000))
    await store.close()
    fill(disk / "ballast")
    await store.open()
    assert store.problem == FULL
    for number in range(50):
        await store.delete(f"k/{number}")
    await store.close()
    await store.open()
    assert store.count("k/") == 0
    await store.close()


def killed_beyond(path: Path, beyond: int) -> dict[str, tuple[int, int]]:
    """Kills the writer after so many writes on a full disk; returns the newest acknowledged revision and size,
    by key.
    """
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    newest: dict[str, tuple[int, int]] = {}
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, env=environment) as writer:
        assert writer.stdout is not None
        left, full = beyond, False
        for line in writer.stdout:
            if line == b"full\n":
                full = True
            elif line.endswith(b"\n"):
                key, revision, size = line.decode().split()
                newest[key] = (int(revision), int(size))
                left -= full
            if left == 0:
                writer.send_signal(signal.SIGKILL)
    assert full and left <= 0
    return newest


@pytest.mark.parametrize("beyond", [1, 30, 300])
async def test_nothing_acknowledged_at_a_full_disk_is_lost_by_kill_9(disk: Path, beyond: int) -> None:
    newest = await asyncio.to_thread(killed_beyond, disk / "s.db", beyond)
    store = SqliteStore(disk / "s.db")
    await store.open()
    last = max(revision for revision, _ in newest.values())
    for key, (revision, size) in newest.items():
        record = store.get(key)
        assert record is not None
        # The write in flight may have reached the disk before the kill.
        assert (record.modified, len(record.value.split(b" ", 1)[1])) == (revision, size) or record.modified > last
    for key in newest:
        await store.delete(key)
    await until_writable(store)
    await store.put("n", bytes(9000))
    await store.close()
