"""Logs over rotated files, their tails, and logs that grow while they are read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from podfit.agent.server.logformat import LogOptions
from podfit.agent.server.logs import follow_log, read_log, tail_start
from podfit.kit.files.folderwatch import FolderWatch

PATIENCE_S = 10.0


def entry(text: str, stream: str = "stdout", tag: str = "F") -> str:
    return f"2026-01-01T00:00:00.000000000Z {stream} {tag} {text}\n"


async def whole(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


async def test_rotated_files_are_read_before_the_current_one(tmp_path: Path) -> None:
    (tmp_path / "0.log.000000000000001").write_text(entry("first"))
    (tmp_path / "0.log.000000000000002").write_text(entry("second"))
    (tmp_path / "0.log").write_text(entry("third"))
    (tmp_path / "1.log").write_text(entry("another attempt's"))
    assert await whole(read_log(tmp_path / "0.log", LogOptions())) == b"first\nsecond\nthird\n"


async def test_a_tail_reaches_back_into_rotated_files(tmp_path: Path) -> None:
    (tmp_path / "0.log.1").write_text(entry("a") + entry("b"))
    (tmp_path / "0.log").write_text(entry("c"))
    assert await whole(read_log(tmp_path / "0.log", LogOptions(tail_lines=2))) == b"b\nc\n"
    assert await whole(read_log(tmp_path / "0.log", LogOptions(tail_lines=9))) == b"a\nb\nc\n"
    assert await whole(read_log(tmp_path / "0.log", LogOptions(tail_lines=0))) == b""


async def test_a_log_that_was_never_written_is_empty(tmp_path: Path) -> None:
    assert await whole(read_log(tmp_path / "none" / "0.log", LogOptions())) == b""


@given(
    st.lists(st.tuples(st.sampled_from("FP"), st.sampled_from(["stdout", "stderr"])), max_size=30), st.integers(0, 9)
)
def test_a_tail_has_the_requested_number_of_lines(entries: list[tuple[str, str]], wanted: int) -> None:
    import io

    lines = [entry(f"{number}", stream, tag).encode() for number, (tag, stream) in enumerate(entries)]
    for stream in (b"", b"stderr"):
        start, found = tail_start(io.BytesIO(b"".join(lines)), wanted, stream)
        kept = b"".join(lines)[start:]
        ends = [tag == "F" and (not stream or stream == name.encode()) for tag, name in entries]
        assert found == min(wanted, sum(ends))
        assert kept == b"" or kept in [b"".join(lines[at:]) for at in range(len(lines))]
        shown = [line for line in kept.splitlines() if b" F " in line and (not stream or stream in line)]
        assert len(shown) == found


class Container:
    """Whose log is followed."""

    def __init__(self, folder: Path) -> None:
        self.over = False
        self.watch = FolderWatch(folder)

    async def ended(self) -> bool:
        return self.over

    def end(self) -> None:
        self.over = True
        self.watch.wake()


async def following(
    file: Path, container: Container, options: LogOptions
) -> tuple[asyncio.Queue[bytes], asyncio.Task[None]]:
    seen: asyncio.Queue[bytes] = asyncio.Queue()

    async def follow() -> None:
        async for piece in follow_log(file, options, container.watch, container.ended):
            seen.put_nowait(piece)

    return seen, asyncio.ensure_future(follow())


async def test_following_shows_what_is_written_later_and_ends_with_the_container(tmp_path: Path) -> None:
    file = tmp_path / "0.log"
    container = Container(tmp_path)
    seen, task = await following(file, container, LogOptions(follow=True))
    with file.open("a") as log:
        for text in ("one", "two"):
            log.write(entry(text))
            log.flush()
            assert await asyncio.wait_for(seen.get(), PATIENCE_S) == text.encode() + b"\n"
    container.end()
    await asyncio.wait_for(task, PATIENCE_S)
    container.watch.close()


async def test_following_continues_in_the_new_file_after_a_rotation(tmp_path: Path) -> None:
    file = tmp_path / "0.log"
    file.write_text(entry("before"))
    container = Container(tmp_path)
    seen, task = await following(file, container, LogOptions(follow=True))
    assert await asyncio.wait_for(seen.get(), PATIENCE_S) == b"before\n"
    file.rename(tmp_path / "0.log.1")
    with (tmp_path / "0.log.1").open("a") as log:
        log.write(entry("the old file's last"))
    assert await asyncio.wait_for(seen.get(), PATIENCE_S) == b"the old file's last\n"
    file.write_text(entry("after"))
    assert await asyncio.wait_for(seen.get(), PATIENCE_S) == b"after\n"
    container.end()
    await asyncio.wait_for(task, PATIENCE_S)
    container.watch.close()


async def test_following_stops_when_the_bytes_are_out(tmp_path: Path) -> None:
    file = tmp_path / "0.log"
    file.write_text(entry("abcdef"))
    container = Container(tmp_path)
    pieces = follow_log(file, LogOptions(follow=True, limit_bytes=3), container.watch, container.ended)
    assert await asyncio.wait_for(whole(pieces), PATIENCE_S) == b"abc"
    container.watch.close()


async def test_following_misses_no_file_of_several_rotations(tmp_path: Path) -> None:
    file = tmp_path / "0.log"
    file.write_text(entry("0"))
    container = Container(tmp_path)
    seen, task = await following(file, container, LogOptions(follow=True))
    assert await asyncio.wait_for(seen.get(), PATIENCE_S) == b"0\n"
    for number in range(1, 4):
        file.rename(tmp_path / f"0.log.{number}")
        file.write_text(entry(str(number)))
    container.end()
    await asyncio.wait_for(task, PATIENCE_S)
    assert [seen.get_nowait() for _ in range(seen.qsize())] == [b"1\n", b"2\n", b"3\n"]
    container.watch.close()


async def test_following_continues_with_the_oldest_file_if_its_own_is_deleted(tmp_path: Path) -> None:
    file = tmp_path / "0.log"
    file.write_text(entry("0"))
    container = Container(tmp_path)
    seen, task = await following(file, container, LogOptions(follow=True))
    assert await asyncio.wait_for(seen.get(), PATIENCE_S) == b"0\n"
    file.unlink()
    (tmp_path / "0.log.7").write_text(entry("7"))
    file.write_text(entry("8"))
    container.end()
    await asyncio.wait_for(task, PATIENCE_S)
    assert [seen.get_nowait() for _ in range(seen.qsize())] == [b"7\n", b"8\n"]
    container.watch.close()


async def test_reading_ends_although_the_container_writes_on(tmp_path: Path) -> None:
    file = tmp_path / "0.log"
    file.write_text(entry("there"))
    pieces = read_log(file, LogOptions())
    shown = [await anext(pieces)]
    for number in range(3):
        file.rename(tmp_path / f"0.log.{number}")
        file.write_text(entry("later"))
    shown += [piece async for piece in pieces]
    assert shown == [b"there\n"]
