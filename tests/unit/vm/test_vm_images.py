"""The files in an unpacked image that a VM starts from, and those outside that it must not reach."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from podfit.images.index import StoredImage
from podfit.vm.guest.images import ImageUnusable, _guest
from podfit.vm.records import Image


def unpacked(root: Path, *files: str) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x" * 512)


def source(root: Path) -> Image:
    return _guest(StoredImage("sha256:1", str(root)), {})


def qcow2(path: Path, version: int, backing: int = 0, features: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = struct.pack(">4sIQ", b"QFI\xfb", version, backing).ljust(72, b"\0") + struct.pack(">Q", features)
    path.write_bytes(header.ljust(512, b"\0"))


def test_a_kernel_behind_a_link_in_the_image_is_booted(tmp_path: Path) -> None:
    unpacked(tmp_path, "boot/vmlinuz-6.1", "boot/initrd.img-6.1")
    (tmp_path / "boot/vmlinuz").symlink_to("vmlinuz-6.1")
    (tmp_path / "boot/initrd.img").symlink_to("initrd.img-6.1")
    image = source(tmp_path)
    assert (image.kernel, image.initrd) == (str(tmp_path / "boot/vmlinuz-6.1"), str(tmp_path / "boot/initrd.img-6.1"))


@pytest.mark.parametrize("link", ["disk", "disk/root.raw", "boot", "boot/vmlinuz"])
def test_a_link_that_leaves_the_image_is_not_followed(tmp_path: Path, link: str) -> None:
    unpacked(tmp_path / "host", "root.raw", "vmlinuz")
    root = tmp_path / "image"
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(tmp_path / "host" / (Path(link).name if "/" in link else ""))
    with pytest.raises(ImageUnusable, match="neither a disk"):
        source(root)


def test_an_empty_disk_is_refused(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/root.raw").touch()
    with pytest.raises(ImageUnusable, match="root.raw is empty"):
        source(tmp_path)


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ({"version": 2, "backing": 512}, "has a backing file"),
        ({"version": 3, "backing": 512}, "has a backing file"),
        ({"version": 3, "features": 4}, "has its data in another file"),
    ],
)
def test_a_disk_that_names_another_file_is_refused(tmp_path: Path, header: dict[str, int], why: str) -> None:
    qcow2(tmp_path / "disk/root.qcow2", **header)
    with pytest.raises(ImageUnusable, match=f"root.qcow2 {why}"):
        source(tmp_path)


@pytest.mark.parametrize("header", [{"version": 2}, {"version": 3, "features": 1}])
def test_a_complete_disk_is_taken(tmp_path: Path, header: dict[str, int]) -> None:
    qcow2(tmp_path / "disk/root.qcow2", **header)
    assert source(tmp_path).disk_format == "qcow2"
