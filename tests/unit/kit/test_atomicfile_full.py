"""Small files on a full disk: replaced if possible, else overwritten, without a partial file left beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.disks import fill, needs_root, small_disk

from podfit.kit.files.atomicfile import write_again, write_atomic
from podfit.kit.files.dirlock import DirectoryLock

pytestmark = needs_root


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 256 << 10) as folder:
        yield folder


def test_a_file_that_cannot_be_replaced_stays_as_it_is_and_leaves_nothing_beside_it(disk: Path) -> None:
    write_atomic(disk / "file", b"before")
    fill(disk / "ballast")
    with pytest.raises(OSError, match="No space left"):
        write_atomic(disk / "file", b"after")
    assert (disk / "file").read_bytes() == b"before"
    assert sorted(path.name for path in disk.iterdir()) == ["ballast", "file"]


def test_a_file_that_is_made_again_is_written_over_at_a_full_disk(disk: Path) -> None:
    write_again(disk / "file", b"before, and longer")
    fill(disk / "ballast")
    write_again(disk / "file", b"after")
    assert (disk / "file").read_bytes() == b"after"
    with pytest.raises(OSError, match="No space left"):
        write_again(disk / "new", b"data")


def test_a_directory_is_locked_at_a_full_disk(disk: Path) -> None:
    with DirectoryLock(disk, "lock", "test"):
        pass
    fill(disk / "ballast")
    with DirectoryLock(disk, "lock", "test"):
        pass
