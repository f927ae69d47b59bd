"""Unpacking layers over each other: whiteouts, links, and no write outside the folder."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.containers.images import Files, layer

from podfit.images.content.digests import sha256
from podfit.images.content.layers import EscapesRoot, Unpacker
from podfit.images.errors import BrokenImage


def unpack(root: Path, *layers: Files) -> Path:
    root.mkdir(exist_ok=True)
    unpacker = Unpacker(root)
    for files in layers:
        unpacker.apply(io.BytesIO(layer(files)))
    return root


def names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def test_links_resolve_inside_the_image(tmp_path: Path) -> None:
    root = unpack(
        tmp_path / "root",
        {"run/": b"", "var/run": "/run", "etc/zone": "/usr/zone", "bin/a": b"a"},
        {"var/run/lock": b"x", "/etc/zone": b"file", "bin/b": "=bin/a"},
    )
    assert (root / "run/lock").read_bytes() == b"x" and (root / "etc/zone").read_bytes() == b"file"
    assert (root / "bin/b").samefile(root / "bin/a")


def test_a_whiteout_hides_the_layers_below_and_not_its_own(tmp_path: Path) -> None:
    root = unpack(
        tmp_path / "root",
        {"etc/old": b"x", "etc/kept": b"x", "lib/a": b"x", "lib/deep/b": b"x", "both/low": b"x"},
        {
            "etc/.wh.old": b"",
            "lib/": b"",
            "lib/new": b"y",
            "lib/deep/c": b"y",
            "lib/.wh..wh..opq": b"",
            "both/high": b"y",
            ".wh.both": b"",
        },
    )
    assert names(root) == {"etc", "etc/kept", "lib", "lib/new", "lib/deep", "lib/deep/c", "both", "both/high"}


@pytest.mark.parametrize("name", ["../out", "a/../../out", "up/out"])
def test_no_path_escapes_the_image(tmp_path: Path, name: str) -> None:
    with pytest.raises(EscapesRoot):
        unpack(tmp_path / "root", {"up": "../..", name: b"x"})
    assert [found.name for found in tmp_path.iterdir()] == ["root"]


def test_a_whiteout_removes_nothing_outside(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    away = str(precious)
    gone = (f"{away}/.wh.file", f"{away}/.wh..wh..opq", "there/.wh.file", "there/.wh..wh..opq")
    unpack(tmp_path / "root", {"here/": b"", "there": away, **dict.fromkeys(gone, b"")})
    assert (precious / "file").read_text() == "kept"


def test_a_file_takes_the_place_of_a_link_to_the_host(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("kept")
    root = unpack(tmp_path / "root", {"link": str(outside)}, {"link": b"inside"})
    assert outside.read_text() == "kept" and (root / "link").read_bytes() == b"inside"


def test_a_hard_link_to_a_link_does_not_reach_the_host(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("kept")
    root = unpack(tmp_path / "root", {"link": str(outside), "hard": "=link"}, {"hard": b"inside"})
    assert outside.read_text() == "kept" and (root / "hard").read_bytes() == b"inside"


def test_a_hard_link_to_nothing_is_a_broken_image(tmp_path: Path) -> None:
    with pytest.raises(BrokenImage):
        unpack(tmp_path / "root", {"hard": "=etc/passwd"})


def test_owners_are_numbers_and_not_names_of_the_host(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("file")
        member.uid, member.gid, member.uname, member.gname = 1234, 2345, "daemon", "daemon"
        archive.addfile(member, io.BytesIO())
    buffer.seek(0)
    Unpacker(tmp_path).apply(buffer)
    found = (tmp_path / "file").stat()
    assert (found.st_uid, found.st_gid) == (1234, 2345)


def test_an_image_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    for unpacker in (Unpacker(tmp_path, max_bytes=10), Unpacker(tmp_path, max_files=1)):
        with pytest.raises(BrokenImage):
            unpacker.apply(io.BytesIO(layer({"a": b"123456", "b": b"123456"})))


def test_an_unpacked_layer_matches_the_digest_in_the_configuration(tmp_path: Path) -> None:
    plain, file = layer({"a": b"1"}), tmp_path / "layer"
    file.write_bytes(gzip.compress(plain))
    root = tmp_path / "root"
    root.mkdir()
    Unpacker(root).apply_file(file, sha256(plain))
    with pytest.raises(BrokenImage):
        Unpacker(root).apply_file(file, sha256(b"else"))


@pytest.mark.parametrize("content", [b"no archive", gzip.compress(layer({"a": b"x" * 9000}))[:-500], b"\x1f\x8bno"])
def test_a_layer_that_cannot_be_read_is_a_broken_image(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "layer"
    file.write_bytes(content)
    with pytest.raises(BrokenImage):
        Unpacker(tmp_path).apply_file(file)


words = st.sampled_from(["a", "b", "c", "..", ".", "", "link", ".wh.a", ".wh.link", ".wh..wh..opq", "etc"])
paths = st.lists(words, min_size=1, max_size=4).map("/".join)
targets = st.one_of(paths, paths.map(lambda path: "/" + path), st.sampled_from(["/", "..", "../..", "/outside"]))
contents = st.one_of(st.just(b"x"), targets, targets.map(lambda target: "=" + target))
trees = st.lists(st.dictionaries(paths, contents, max_size=8), min_size=1, max_size=3)


@settings(max_examples=300, deadline=None)
@given(trees)
def test_nothing_outside_the_folder_changes_whatever_a_layer_says(layers: list[dict[str, bytes | str]]) -> None:
    top = Path(tempfile.mkdtemp())
    try:
        root, outside = top / "deep" / "root", top / "outside"
        root.mkdir(parents=True)
        outside.mkdir()
        (outside / "a").write_text("kept")
        (top / "a").write_text("kept")
        (top / "deep" / "a").write_text("kept")
        unpacker = Unpacker(root)
        for files in layers:
            try:
                unpacker.apply(io.BytesIO(layer(files)))
            except (BrokenImage, OSError):
                break
        shutil.rmtree(root)
        assert names(top) == {"deep", "deep/a", "outside", "outside/a", "a"}
        assert {(top / name).read_text() for name in ("a", "deep/a", "outside/a")} == {"kept"}
    finally:
        shutil.rmtree(top)
