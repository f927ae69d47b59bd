"""Parts of volumes are mounted from the place that the kernel resolved below the volume, whatever the container
changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from podfit.agent.runtimes.cri.messages.subpaths import SubPaths
from podfit.agent.runtimes.process.support import check_support
from podfit.agent.runtimes.values import CannotRun, Mount

MISSING = check_support()
pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(MISSING), reason="; ".join(MISSING) or "all there")]


@pytest.fixture
def subpaths(tmp_path: Path) -> Iterator[SubPaths]:
    made = SubPaths(tmp_path / "subpaths")
    yield made
    made.remove("u1")


def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "file").write_text("here")
    return folder


def test_a_part_stays_what_it_was_when_the_volume_changes(subpaths: SubPaths, tmp_path: Path) -> None:
    folder = volume(tmp_path)
    [mount] = subpaths.resolve("u1", "c1", 0, (Mount(folder, "/x", sub_path="sub"),))
    (folder / "sub").rename(folder / "old")
    (folder / "sub").symlink_to("/etc")
    assert mount.sub_path == "" and (mount.host_path / "file").read_text() == "here"


def test_a_link_out_of_the_volume_is_refused(subpaths: SubPaths, tmp_path: Path) -> None:
    folder = volume(tmp_path)
    (folder / "out").symlink_to("/etc")
    with pytest.raises(CannotRun, match="subPath out"):
        subpaths.resolve("u1", "c1", 0, (Mount(folder, "/x", sub_path="out"),))


def test_a_file_can_be_a_part_and_removal_leaves_nothing(subpaths: SubPaths, tmp_path: Path) -> None:
    folder = volume(tmp_path)
    [mount] = subpaths.resolve("u1", "c1", 0, (Mount(folder, "/x", sub_path="sub/file"),))
    assert mount.host_path.read_text() == "here"
    subpaths.remove("u1")
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert not (tmp_path / "subpaths" / "u1").exists() and (folder / "sub" / "file").read_text() == "here"


def test_what_is_no_part_is_left_as_it_is(subpaths: SubPaths, tmp_path: Path) -> None:
    mount = Mount(tmp_path, "/x", read_only=True)
    assert subpaths.resolve("u1", "c1", 0, (mount,)) == [mount]


def test_a_part_of_an_image_is_left_to_the_runtime(subpaths: SubPaths, tmp_path: Path) -> None:
    mount = Mount(tmp_path / "nothing", "/x", True, "etc", "sha256:1")
    assert subpaths.resolve("u1", "c1", 0, (mount,)) == [mount]
