"""The agent's files on disk: its ledger, and pods' volumes and logs."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from podfit.agent.furnish.containers import security
from podfit.agent.furnish.volumes.files import make_below, replace_files
from podfit.agent.pods.ledger import Ledger
from podfit.api.resize.states import Allocated

SIZE = {"limits": {"cpu": "200m"}, "requests": {"cpu": "100m"}}


async def test_a_ledger_comes_back_as_it_was(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.allocate("u", Allocated({"c": SIZE}, {"limits": {"cpu": "1"}}))
    ledger.actuate("u", "c", SIZE)
    await ledger.flush()
    again = Ledger(tmp_path / "ledger")
    assert again.load()
    assert again.allocated("u") == ledger.allocated("u")
    assert again.actuated("u") == ledger.actuated("u")


async def test_a_restart_is_kept_until_it_is_done(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.actuate("u", "c", SIZE)
    ledger.restart("u", {"c": "id1"})
    await ledger.flush()
    again = Ledger(tmp_path / "ledger")
    again.load()
    assert again.restarting("u") == {"c": "id1"}
    assert again.actuated("u") == ledger.actuated("u")
    again.restart("u", {})
    await again.flush()
    last = Ledger(tmp_path / "ledger")
    last.load()
    assert last.restarting("u") == {}


async def test_a_restart_is_written_so_that_earlier_agents_can_read_it(tmp_path: Path) -> None:
    """Older readers treat any line that is neither an allocation nor an end as an actuated size."""
    ledger = Ledger(tmp_path / "ledger")
    ledger.restart("u", {"c": "id1"})
    await ledger.flush()
    entry = json.loads(ledger.path.read_text().splitlines()[-1])["entry"]
    assert entry == {"uid": "u", "actuated": {"containers": {}, "pod": None}, "restarting": {"c": "id1"}}


async def test_a_ledger_can_be_read_by_people(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.allocate("u", Allocated({"c": SIZE}))
    await ledger.flush()
    lines = [json.loads(line)["entry"] for line in ledger.path.read_text().splitlines()]
    assert lines == [{"version": 1}, {"uid": "u", "allocated": {"containers": {"c": SIZE}, "pod": None}}]


async def test_an_allocation_is_durable_only_after_the_flush(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.allocate("u", Allocated({"c": SIZE}))
    assert not ledger.is_durable("u")
    await ledger.flush()
    assert ledger.is_durable("u")


async def test_an_allocation_made_while_another_is_written_waits_for_its_own_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger._inline.took(1.0)  # a slow disk: writes go to a thread
    writing, go_on = threading.Event(), threading.Event()
    write = ledger._write

    def slowly(lines: bytes, whole: bytes) -> None:
        writing.set()
        assert go_on.wait(30)
        write(lines, whole)

    monkeypatch.setattr(ledger, "_write", slowly)
    ledger.allocate("u", Allocated({"c": SIZE}))
    ledger.allocate("v", Allocated({"c": SIZE}))
    ledger.flush_soon()
    assert await asyncio.to_thread(writing.wait, 30)
    under_way = ledger._writing
    assert under_way is not None
    ledger.allocate("u", Allocated({"c": {}}))
    go_on.set()
    await under_way
    assert (ledger.is_durable("u"), ledger.is_durable("v")) == (False, True)
    await ledger.flush()
    assert ledger.is_durable("u")


async def test_a_flush_does_not_wait_for_what_others_change_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, loop = Ledger(tmp_path / "ledger"), asyncio.get_running_loop()
    written: list[bytes] = []

    def write(lines: bytes, whole: bytes) -> None:
        written.append(whole or lines)
        # Meanwhile the next write is waiting already, as on a busy node.
        loop.call_soon_threadsafe(ledger.allocate, f"v{len(written)}", Allocated({"c": SIZE}))

    monkeypatch.setattr(ledger, "_write", write)
    ledger.allocate("u", Allocated({"c": SIZE}))
    async with asyncio.timeout(30):
        await asyncio.gather(*(ledger.flush() for _ in range(5)))
    assert len(written) <= 2


async def test_changes_that_come_together_share_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path / "ledger")
    writes = 0
    written = ledger._write

    def counted(lines: bytes, whole: bytes) -> None:
        nonlocal writes
        writes += 1
        written(lines, whole)

    monkeypatch.setattr(ledger, "_write", counted)

    async def promise(number: int) -> None:
        ledger.allocate(f"u{number}", Allocated({"c": SIZE}))
        await ledger.flush()

    await asyncio.gather(*(promise(number) for number in range(40)))
    assert writes <= 2
    again = Ledger(ledger.path)
    assert again.load() and len(again.uids()) == 40


async def test_an_unchanged_ledger_is_not_written(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.allocate("u", Allocated({"c": SIZE}))
    await ledger.flush()
    before = ledger.path.read_bytes()
    ledger.allocate("u", Allocated({"c": SIZE}))
    await ledger.flush()
    assert ledger.path.read_bytes() == before


async def test_a_line_cut_off_by_a_power_loss_is_dropped(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.allocate("u", Allocated({"c": SIZE}))
    await ledger.flush()
    whole = ledger.path.read_bytes()
    ledger.allocate("u", Allocated({"c": {}}))
    await ledger.flush()
    for cut in range(len(whole), ledger.path.stat().st_size - 1, 7):
        (tmp_path / "cut").write_bytes(ledger.path.read_bytes()[:cut])
        again = Ledger(tmp_path / "cut")
        assert again.load()
        assert again.allocated("u") == Allocated({"c": SIZE})
        again.allocate("v", Allocated({"c": SIZE}))
        await again.flush()
        third = Ledger(tmp_path / "cut")
        assert third.load() and third.uids() == {"u", "v"}


async def test_history_is_thrown_away_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podfit.agent.pods.ledger._COMPACT_BYTES", 4000)
    ledger = Ledger(tmp_path / "ledger", durable=False)
    for number in range(500):
        ledger.allocate("u", Allocated({"c": {"requests": {"cpu": f"{number}m"}}}))
        ledger.allocate(f"v{number}", Allocated({"c": SIZE}))
        await ledger.flush()
        ledger.forget(f"v{number}")
    assert ledger.path.stat().st_size < 6000
    again = Ledger(tmp_path / "ledger")
    assert again.load()
    assert again.allocated("u") == Allocated({"c": {"requests": {"cpu": "499m"}}})


async def test_a_failed_write_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.allocate("u", Allocated({"c": SIZE}))
    await ledger.flush()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", full)
        ledger.allocate("u", Allocated({"c": {}}))
        with pytest.raises(OSError):
            await ledger.flush()
        assert not ledger.is_durable("u")
    await ledger.flush()
    again = Ledger(tmp_path / "ledger")
    assert again.load() and again.allocated("u") == Allocated({"c": {}})


@pytest.mark.parametrize("damage", [b"", b"{", b'{"version":1}\n', b'{"sum":1,"entry":{"version":1}}\n'])
def test_a_damaged_ledger_is_set_aside(tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "ledger"
    path.write_bytes(damage)
    assert not Ledger(path).load()
    assert not path.exists()
    assert [file.read_bytes() for file in tmp_path.glob("ledger.corrupt-*")] == [damage]
    assert "unusable" in caplog.text


def test_files_of_a_volume_change_all_at_once(tmp_path: Path) -> None:
    volume = tmp_path / "v"
    replace_files(volume, {"a": (b"1", 0o644), "d/b": (b"2", 0o600)})
    assert (volume / "a").read_text() == "1" and (volume / "d" / "b").read_text() == "2"
    first = os.readlink(volume / "..data")
    replace_files(volume, {"a": (b"1", 0o644), "d/b": (b"2", 0o600)})
    assert os.readlink(volume / "..data") == first
    replace_files(volume, {"a": (b"3", 0o644)})
    assert (volume / "a").read_text() == "3"
    assert sorted(path.name for path in volume.iterdir()) == sorted(["..data", os.readlink(volume / "..data"), "a"])


def test_files_of_a_volume_are_the_groups_of_the_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[str, int]] = []
    monkeypatch.setattr(os, "chown", lambda path, uid, gid: given.append((Path(path).name, gid)))
    volume = tmp_path / "volume"
    replace_files(volume, {"a": (b"1", 0o600), "d/b": (b"2", 0o400)}, 3000)
    assert {name: gid for name, gid in given if name in ("a", "d", "b")} == {"a": 3000, "d": 3000, "b": 3000}
    assert (volume / "a").stat().st_mode & 0o7777 == 0o640
    assert (volume / "d" / "b").stat().st_mode & 0o7777 == 0o440
    given.clear()
    replace_files(volume, {"a": (b"1", 0o600), "d/b": (b"2", 0o400)}, 3000)
    assert not given


def test_a_part_of_a_volume_is_made_with_the_rights_of_the_whole(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    make_below(tmp_path, "a/b")
    made = tmp_path / "a" / "b"
    assert made.stat().st_mode & 0o7777 == made.parent.stat().st_mode & 0o7777 == 0o777
    (tmp_path / "file").write_text("x")
    make_below(tmp_path, "file")
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.parametrize("sub", ["out", "out/etc", "inner/out"])
def test_a_link_does_not_lead_out_of_a_volume(tmp_path: Path, sub: str) -> None:
    volume = tmp_path / "volume"
    (volume / "inner").mkdir(parents=True)
    (volume / "out").symlink_to(tmp_path)
    (volume / "inner" / "out").symlink_to("../..")
    with pytest.raises(ValueError, match="not within volume path"):
        make_below(volume, sub)
    assert not (tmp_path / "etc").exists()


@pytest.mark.parametrize(
    ("context", "gains"),
    [({}, False), ({"allowPrivilegeEscalation": False}, False), ({"allowPrivilegeEscalation": True}, True)],
)
def test_privileges_are_gained_only_where_a_manifest_allows_it(context: dict[str, Any], gains: bool) -> None:
    made = security({}, {"name": "c", "securityContext": context})
    assert made.no_new_privileges is not gains
    assert not security({}, {"name": "c", "securityContext": {**context, "privileged": True}}).no_new_privileges
