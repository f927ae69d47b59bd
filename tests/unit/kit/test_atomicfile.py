"""Files that are replaced completely or not at all."""

import os
from pathlib import Path

import pytest

from podfit.kit.files.atomicfile import write_atomic


def test_the_new_content_replaces_the_old_with_the_requested_mode(tmp_path: Path) -> None:
    file = tmp_path / "state"
    write_atomic(file, b"one")
    write_atomic(file, b"two", 0o600)
    assert file.read_bytes() == b"two" and file.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["state"]


def test_a_failed_write_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "state"
    write_atomic(file, b"one")

    def full(descriptor: int, data: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(file, b"two")
    assert file.read_bytes() == b"one"
