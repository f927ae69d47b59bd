"""A container's log stays within its size while it is written, and survives a full disk."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.disks import fill, needs_root, small_disk

from podfit.agent.runtimes.process.keeper.children import read_json, reserve_state, write_state
from podfit.agent.runtimes.process.keeper.logfile import LogFile

ENTRY_BYTES = 50


def texts(folder: Path) -> list[str]:
    """The contents of all files, oldest first."""
    rotated = sorted(folder.glob("0.log.*"))
    files = [*rotated, folder / "0.log"]
    return [line.split(" ", 3)[3] for file in files for line in file.read_text().splitlines()]


@settings(max_examples=50, deadline=None)
@given(
    chunks=st.lists(st.integers(1, 400), min_size=1, max_size=40),
    max_files=st.integers(2, 5),
    max_bytes=st.integers(ENTRY_BYTES, 2000),
)
def test_no_file_exceeds_its_size_and_the_newest_lines_are_kept_in_order(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[int], max_files: int, max_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log, number = LogFile(str(folder / "0.log"), max_bytes, max_files), 0
    for count in chunks:
        log.add("stdout", b"".join(b"%d\n" % index for index in range(number, number + count)))
        number += count
        files = list(folder.iterdir())
        assert len(files) <= max_files
        assert all(file.stat().st_size <= max_bytes for file in files)
    log.finish()
    said = [int(text) for text in texts(folder)]
    assert said == list(range(number - len(said), number))
    if len(list(folder.iterdir())) < max_files:
        assert len(said) == number


def test_rotation_keeps_the_order_when_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, now = LogFile(str(tmp_path / "0.log"), 60, 9), time.time_ns()
    for number in range(5):
        monkeypatch.setattr(time, "time_ns", lambda back=number: now - back * 10**9)
        log.add("stdout", b"%d\n" % number)
    assert texts(tmp_path) == list("01234")


def test_a_negative_size_switches_rotation_off(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "0.log"), -1)
    log.add("stdout", b"line\n" * 1_000_000)
    assert [path.name for path in tmp_path.iterdir()] == ["0.log"]


def test_half_an_entry_of_a_killed_keeper_is_removed(tmp_path: Path) -> None:
    LogFile(str(tmp_path / "0.log")).add("stdout", b"whole\n")
    with (tmp_path / "0.log").open("a") as file:
        file.write("2026-01-01T00:00:00.000000000Z stdout F ha")
    LogFile(str(tmp_path / "0.log")).add("stdout", b"next\n")
    assert texts(tmp_path) == ["whole", "next"]


@needs_root
def test_output_at_a_full_disk_is_dropped_and_counted(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 256 << 10) as disk:
        log = LogFile(str(disk / "0.log"))
        log.add("stdout", b"before\n")
        fill(disk / "ballast")
        for _ in range(100):
            log.add("stdout", b"%s\n" % (b"x" * 8000))
        kept = [text for text in texts(disk) if text != "before"]
        assert all(text == "x" * 8000 for text in kept)
        (disk / "ballast").unlink()
        log.add("stderr", b"after\n")
        assert texts(disk)[len(kept) + 1 :] == [
            f"podfit: {100 - len(kept)} lines of output were lost, the log could not be written: "
            "No space left on device",
            "after",
        ]


@needs_root
def test_how_a_container_ended_is_recorded_at_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 256 << 10) as disk:
        reserve_state(str(disk))
        assert read_json(str(disk), "state.json") == {}
        fill(disk / "ballast")
        write_state(str(disk), {"exit_code": 3, "message": "m" * 9000})
        assert read_json(str(disk), "state.json") == {"exit_code": 3, "message": ""}
        assert sorted(path.name for path in disk.iterdir()) == ["ballast", "state.json"]
