"""Image names, image archives, and what runs in them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from podfit.agent.runtimes.base import ContainerConfig, ImageMissing, Limits, Security
from podfit.agent.runtimes.process import layers
from podfit.agent.runtimes.process.images import PAUSE, Image, Images
from podfit.agent.runtimes.process.launchspec import argv, capabilities


def tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def oci_archive(path: Path, layers: list[dict[str, bytes]], config: dict[str, object]) -> None:
    blobs: dict[str, bytes] = {}

    def blob(content: bytes) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"digest": f"sha256:{digest}", "size": len(content)}

    manifest = {
        "config": blob(json.dumps({"config": config}).encode()),
        "layers": [blob(tar(layer)) for layer in layers],
    }
    index = {"manifests": [blob(json.dumps(manifest).encode())]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tar({"oci-layout": b"{}", "index.json": json.dumps(index).encode(), **blobs}))


def container(*command: str, args: tuple[str, ...] = ()) -> ContainerConfig:
    return ContainerConfig("c1", 0, "app", command, args, {}, "", (), Limits(), Path("/none"))


def test_an_oci_archive_is_unpacked_layer_over_layer(tmp_path: Path) -> None:
    layers = [{"bin/app": b"one", "etc/old": b"x"}, {"bin/app": b"two", "etc/.wh.old": b""}]
    config = {"Entrypoint": ["/bin/app"], "Cmd": ["--help"], "Env": ["A=b"], "WorkingDir": "/srv", "User": "7:8"}
    oci_archive(tmp_path / "registry.io!team!app:1.tar", layers, config)
    image = Images(tmp_path, "").find("registry.io/team/app:1")
    root = Path(image.rootfs)
    assert (root / "bin/app").read_bytes() == b"two" and not (root / "etc/old").exists()
    assert (image.entrypoint, image.command, image.working_dir, image.user) == (
        ("/bin/app",),
        ("--help",),
        "/srv",
        "7:8",
    )
    assert image.id.startswith("sha256:") and root.stat().st_mode & 0o777 == 0o755


def test_unpacked_images_that_nobody_uses_are_set_aside_and_unpacked_again_when_asked_for(tmp_path: Path) -> None:
    for name in ("used", "unused"):
        oci_archive(tmp_path / f"{name}:1.tar", [{"bin/app": name.encode()}], {"Cmd": [name]})
    images = Images(tmp_path, "")
    used, unused = images.find("used:1"), images.find("unused:1")
    (aside,) = images.set_aside_unused({used.id})
    assert Path(used.rootfs).exists() and not Path(unused.rootfs).exists() and (aside / "bin/app").exists()
    again = images.find("unused:1")
    assert again == unused and (Path(again.rootfs) / "bin/app").read_bytes() == b"unused"


def test_a_layer_cannot_write_outside(tmp_path: Path) -> None:
    oci_archive(tmp_path / "images" / "evil:1.tar", [{"../../escaped": b"x"}], {})
    with pytest.raises((ImageMissing, tarfile.TarError)):
        Images(tmp_path / "images", "").find("evil:1")
    assert not (tmp_path / "escaped").exists()


def layer(*members: tuple[str, bytes | str]) -> io.BytesIO:
    """Files (bytes), symbolic links (text) and hard ones (=text) in order; a name that ends in a slash is a folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name.rstrip("/"))
            member.mode = 0o4755
            if isinstance(content, str):
                member.type = tarfile.LNKTYPE if content.startswith("=") else tarfile.SYMTYPE
                member.linkname = content.removeprefix("=")
                archive.addfile(member)
            elif name.endswith("/"):
                member.type = tarfile.DIRTYPE
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    buffer.seek(0)
    return buffer


def test_links_lead_to_places_in_the_image(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    layers.apply(layer(("run/", b""), ("var/run", "/run"), ("etc/zone", "/usr/zone"), ("bin/a", b"a")), root)
    layers.apply(layer(("var/run/lock", b"x"), ("/etc/zone", b"file"), ("bin/b", "=bin/a")), root)
    assert (root / "run/lock").read_bytes() == b"x" and (root / "etc/zone").read_bytes() == b"file"
    assert (root / "bin/b").samefile(root / "bin/a") and (root / "bin/a").stat().st_mode & 0o7777 == 0o4755


@pytest.mark.parametrize("name", ["../out", "a/../../out", "up/out"])
def test_no_name_leads_out_of_the_image(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(layers.LeadsOut):
        layers.apply(layer(("up", "../.."), (name, b"x")), root)
    assert [found.name for found in tmp_path.iterdir()] == ["root"]


def test_a_whiteout_removes_nothing_outside(tmp_path: Path) -> None:
    root, precious = tmp_path / "root", tmp_path / "precious"
    (root / "here").mkdir(parents=True)
    precious.mkdir()
    (precious / "file").write_text("kept")
    away = str(precious)
    gone = (f"{away}/.wh.file", f"{away}/.wh..wh..opq", "there/.wh.file", "there/.wh..wh..opq")
    layers.apply(layer(("there", away), *((name, b"") for name in gone)), root)
    assert (precious / "file").read_text() == "kept"


def test_a_file_takes_the_place_of_a_link_to_the_host(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.write_text("kept")
    layers.apply(layer(("link", str(outside)), ("link", b"inside")), root)
    assert outside.read_text() == "kept" and (root / "link").read_bytes() == b"inside"


def test_without_a_registry_only_local_images_are_there(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    images = Images(tmp_path, "")
    assert images.find("docker.io/library/tiny:latest").rootfs == str(tmp_path / "tiny")
    with pytest.raises(ImageMissing) as refusal:
        images.find("nginx")
    assert refusal.value.reason == "ErrImagePull"
    assert Images(tmp_path, "host").find("nginx").rootfs == ""


@pytest.mark.parametrize("name", ["", "UPPER", "a b", "x:", "-x", "a" * 600])
def test_names_that_are_none_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ImageMissing) as refusal:
        Images(tmp_path, "host").find(name)
    assert refusal.value.reason == "InvalidImageName"


@pytest.mark.parametrize(
    "name",
    ["busybox", "nginx:1.25", "registry.k8s.io/pause:3.10", "localhost:5000/a/b_c:v1.2-rc.1", "a@sha256:" + "0" * 64],
)
def test_names_that_are_some_are_taken(tmp_path: Path, name: str) -> None:
    assert Images(tmp_path, "host").find(name).id


def test_command_and_arguments_follow_kubernetes_rules() -> None:
    image = Image("i", "/root", entrypoint=("/entry",), command=("default",))
    assert argv(container(), image) == ("/entry", "default")
    assert argv(container(args=("mine",)), image) == ("/entry", "mine")
    assert argv(container("other", args=("mine",)), image) == ("other", "mine")
    assert argv(container("other"), image) == ("other",)
    host = Image("host")
    assert argv(container(), host) == PAUSE and argv(container(args=("no-such-program-here",)), host) == PAUSE
    assert argv(container(args=("sleep", "1")), host) == ("sleep", "1")


def test_capabilities_are_added_and_dropped_by_name() -> None:
    assert "NET_RAW" in capabilities(Security()) and "SYS_ADMIN" not in capabilities(Security())
    assert "NET_RAW" not in capabilities(Security(drop_capabilities=("CAP_NET_RAW",)))
    assert capabilities(Security(drop_capabilities=("all",), add_capabilities=("sys_time",))) == {"SYS_TIME"}
    assert "SYS_ADMIN" in capabilities(Security(add_capabilities=("ALL",)))
