"""A data directory has one holder, which is named and can be asked to stop; no other process is ever signalled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from podfit.kit.files.dirlock import DirectoryLock, InUse, holder_of, this_process

HOLD = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
from pathlib import Path
from podfit.kit.files.dirlock import DirectoryLock
with DirectoryLock(Path(sys.argv[1]), "test.lock", "podfit test"):
    print("held", flush=True)
    signal.sigwait({signal.SIGTERM})
"""


@contextmanager
def holding(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until it gets SIGTERM."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


def lock(folder: Path) -> DirectoryLock:
    return DirectoryLock(folder, "test.lock", "podfit mine")


def test_the_second_process_is_refused_and_the_first_one_named(tmp_path: Path) -> None:
    with holding(tmp_path) as process, pytest.raises(InUse, match=rf"`podfit test` \(pid {process.pid}\)") as refused:
        lock(tmp_path).take()
    assert str(tmp_path) in str(refused.value)


def test_a_holder_that_was_killed_leaves_the_directory_free(tmp_path: Path) -> None:
    with holding(tmp_path) as process:
        process.kill()
        process.wait(30)
        assert holder_of(tmp_path / "test.lock") is None
        with lock(tmp_path):
            pass


def test_a_holder_that_is_stopped_has_exited_on_return(tmp_path: Path) -> None:
    with holding(tmp_path):
        holder = holder_of(tmp_path / "test.lock")
        assert holder is not None and holder.terminate()
        with lock(tmp_path):
            pass


def test_a_later_process_with_the_same_pid_is_not_signalled(tmp_path: Path) -> None:
    with holding(tmp_path) as process:
        holder = holder_of(tmp_path / "test.lock")
        assert holder is not None
        earlier = replace(holder, started=holder.started - 1)
        assert not earlier.terminate()
        assert process.poll() is None


def test_a_released_lock_names_no_holder(tmp_path: Path) -> None:
    mine = lock(tmp_path)
    with mine:
        assert holder_of(mine.path) == this_process("podfit mine")
    assert holder_of(mine.path) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"7", json.dumps({"pid": "x"}).encode()])
def test_a_lock_file_with_any_content_can_be_taken(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "test.lock").write_bytes(content)
    assert holder_of(tmp_path / "test.lock") is None
    with lock(tmp_path):
        pass


def test_children_do_not_inherit_the_lock(tmp_path: Path) -> None:
    with lock(tmp_path):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with lock(tmp_path):
            assert os.path.exists(f"/proc/{child.pid}")
    finally:
        child.kill()
        child.wait(30)


def shared(folder: Path) -> DirectoryLock:
    return DirectoryLock(folder, "test.lock", "podfit shared", shared=True)


def test_processes_that_share_a_directory_hold_it_together(tmp_path: Path) -> None:
    with shared(tmp_path), shared(tmp_path), pytest.raises(InUse, match="`podfit shared`"):
        lock(tmp_path).take()
    with lock(tmp_path):
        pass


def test_a_shared_directory_stays_held_when_one_of_its_holders_leaves(tmp_path: Path) -> None:
    first, second = shared(tmp_path), shared(tmp_path)
    first.take()
    second.take()
    second.release()
    with pytest.raises(InUse):
        lock(tmp_path).take()
    first.release()


def test_a_directory_held_alone_is_not_shared(tmp_path: Path) -> None:
    with holding(tmp_path), pytest.raises(InUse, match="`podfit test`"):
        shared(tmp_path).take()


def test_a_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    with lock(tmp_path / "data"):
        assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "data" / "test.lock").stat().st_mode & 0o777 == 0o600
