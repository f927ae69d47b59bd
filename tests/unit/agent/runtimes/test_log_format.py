"""The keeper's log files."""

from __future__ import annotations

import re
from pathlib import Path

from podfit.agent.runtimes.process.keeper.logfile import PART_BYTES, LogFile, stamp


def rows(path: Path) -> list[tuple[str, str, str]]:
    found = []
    for line in path.read_text().splitlines():
        match = re.fullmatch(r"\S+Z (stdout|stderr) ([FP]) (.*)", line)
        assert match is not None, line
        found.append((match[1], match[2], match[3]))
    return found


def test_a_time_has_nanoseconds() -> None:
    assert stamp(1_700_000_000_000_000_042) == b"2023-11-14T22:13:20.000000042Z"


def test_lines_are_put_together_from_pieces(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "a.log"))
    for piece in (b"he", b"llo\nwor", b"ld\n", b"\n"):
        log.add("stdout", piece)
    log.finish()
    assert rows(tmp_path / "a.log") == [("stdout", "F", "hello"), ("stdout", "F", "world"), ("stdout", "F", "")]


def test_streams_do_not_mix_within_a_line(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "a.log"))
    log.add("stdout", b"out")
    log.add("stderr", b"err\n")
    log.finish()
    assert rows(tmp_path / "a.log") == [("stderr", "F", "err"), ("stdout", "P", "out")]


def test_a_line_without_end_is_written_in_parts_and_adds_up(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "a.log"))
    for _ in range(5):
        log.add("stdout", b"x" * 10_000)
    log.add("stdout", b"\n")
    log.finish()
    found = rows(tmp_path / "a.log")
    assert [tag for _, tag, _ in found] == ["P", "P", "P", "F"]
    assert "".join(text for _, _, text in found) == "x" * 50_000 and len(found[0][2]) == PART_BYTES


def test_a_log_that_cannot_be_written_does_not_stop_its_container(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = LogFile(str(tmp_path / "file" / "a.log"))
    log.add("stdout", b"lost\n")
    log.finish()
