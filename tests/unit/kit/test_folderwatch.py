"""Notification about changes in a folder: by the kernel, and by polling where that is not possible."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from podfit.kit.files import folderwatch
from podfit.kit.files.folderwatch import WHOLE_FILES, FolderWatch


async def woken(watch: FolderWatch) -> bool:
    """Whether there is an event to wake for, once the kernel's events are read."""
    await asyncio.sleep(0.02)
    return watch._changed.is_set()


async def test_new_changed_and_removed_files_are_reported(tmp_path: Path) -> None:
    watch = FolderWatch(tmp_path)
    file = tmp_path / "f"
    for change in (lambda: file.write_text("1"), lambda: file.write_text("2"), file.unlink):
        change()
        async with asyncio.timeout(10):
            await watch.wait()
    watch.close()


async def test_a_file_is_reported_once_it_is_complete(tmp_path: Path) -> None:
    watch = FolderWatch(tmp_path, WHOLE_FILES)
    with (tmp_path / "f").open("w") as file:
        file.write("half")
        file.flush()
        assert not await woken(watch)
    async with asyncio.timeout(10):
        await watch.wait()
    watch.close()


async def test_a_missing_folder_is_watched_once_it_is_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folderwatch, "_FALLBACK_S", 0.01)
    watch = FolderWatch(tmp_path / "later")
    assert not watch.notified
    (tmp_path / "later").mkdir()
    async with asyncio.timeout(10):
        while not watch.notified:
            await watch.wait()
        (tmp_path / "later" / "f").write_text("1")
        await watch.wait()
    watch.close()


async def test_a_folder_that_is_replaced_is_watched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folderwatch, "_FALLBACK_S", 0.01)
    folder = tmp_path / "folder"
    folder.mkdir()
    watch = FolderWatch(folder)
    folder.rename(tmp_path / "old")
    folder.mkdir()
    async with asyncio.timeout(10):
        await watch.wait()
        while not watch.notified:
            await watch.wait()
        (folder / "f").write_text("1")
        await watch.wait()
    watch.close()
