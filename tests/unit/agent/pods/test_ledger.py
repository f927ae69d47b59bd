"""The ledger on a full disk: allocations are lowered and removed, no durable entry is lost, and the problem is
reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.disks import fill, needs_root, small_disk

from podfit.agent.pods.ledger import Ledger
from podfit.api.resize.states import Allocated

pytestmark = needs_root
LARGE, SMALL = ({"c": {"requests": {"cpu": cpu}}} for cpu in ("1000m", "100m"))


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 8 << 20, request.param) as folder:
        yield folder


async def promised(path: Path, count: int) -> Ledger:
    ledger = Ledger(path)
    for number in range(count):
        ledger.allocate(f"u{number}", Allocated(LARGE))
    await ledger.flush()
    return ledger


async def test_allocations_are_shrunk_and_ended_at_a_full_disk(disk: Path) -> None:
    ledger = await promised(disk / "ledger", 100)
    fill(disk / "ballast")
    for number in range(100):
        ledger.allocate(f"u{number}", Allocated(SMALL))
        await ledger.flush()
    for number in range(50):
        ledger.forget(f"u{number}")
        await ledger.flush()
    again = Ledger(disk / "ledger")
    assert again.load()
    assert {uid: again.allocated(uid) for uid in again.uids()} == {
        f"u{number}": Allocated(SMALL) for number in range(50, 100)
    }
    again.forget("u99")
    await again.flush()


async def test_a_ledger_without_room_for_more_reports_it_until_there_is_room(disk: Path) -> None:
    ledger = await promised(disk / "ledger", 10)
    fill(disk / "ballast")
    assert ledger.check() == ""
    turn = 0
    while not ledger.check():
        turn += 1
        for number in range(10):
            ledger.allocate(f"u{number}", Allocated(SMALL if turn % 2 else LARGE))
        await ledger.flush()
    assert ledger.problem == "No space left on device"
    (disk / "ballast").unlink()
    assert ledger.check() == ""


async def test_a_ledger_of_mostly_history_keeps_growing_if_there_is_no_space_for_a_copy(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podfit.agent.pods.ledger._COMPACT_BYTES", 1000)
    monkeypatch.setattr(Ledger, "_live_bytes", lambda self: 0)
    ledger = await promised(disk / "ledger", 100)
    fill(disk / "ballast")
    ledger.forget("u0")
    await ledger.flush()
    assert sorted(path.name for path in disk.iterdir() if path.is_file()) == ["ballast", "ledger"]
    again = Ledger(disk / "ledger")
    assert again.load() and again.uids() == {f"u{number}" for number in range(1, 100)}
