"""The store: loaded archives, names, leases, removal, and what survives a kill in the middle of everything."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.support.containers.images import build, docker_archive, oci_archive

from podfit.images.archives import load
from podfit.images.errors import BrokenImage, ImageInUse, NoSuchImage
from podfit.images.store import ImageStore

SETTINGS = {
    "Entrypoint": ["/bin/app"],
    "Cmd": ["--help"],
    "Env": ["A=b"],
    "WorkingDir": "/srv",
    "User": "7:8",
    "StopSignal": "SIGQUIT",
    "ExposedPorts": {"80/tcp": {}},
    "Labels": {"team": "a"},
}
APP = build([{"bin/app": b"one", "etc/old": b"x"}, {"bin/app": b"two", "etc/.wh.old": b""}], SETTINGS)


def left_over(store: ImageStore) -> list[str]:
    """All files that belong to no image."""
    return sorted(
        str(path.relative_to(store.folder))
        for folder in ("work", "partial", "rootfs", "blobs/sha256")
        for path in (store.folder / folder).iterdir()
    )


def test_an_oci_archive_becomes_an_image_with_its_settings(store: ImageStore, tmp_path: Path) -> None:
    (made,) = load(store, oci_archive(tmp_path / "x.tar", {"registry.io/team/app:1": APP}))
    assert (made.id, made.tags) == (APP.id, ("registry.io/team/app:1",))
    assert made.digests == (f"registry.io/team/app@{APP.digest}",) and made.reported == made.digests[0]
    assert (Path(made.rootfs) / "bin/app").read_bytes() == b"two" and not (Path(made.rootfs) / "etc/old").exists()
    found = made.settings
    assert (found.entrypoint, found.command, found.environment) == (("/bin/app",), ("--help",), ("A=b",))
    assert (found.working_dir, found.user, found.stop_signal) == ("/srv", "7:8", "SIGQUIT")
    assert (found.ports, found.labels) == (("80/tcp",), {"team": "a"})


def test_a_docker_archive_becomes_the_same_image(store: ImageStore, tmp_path: Path) -> None:
    (made,) = load(store, docker_archive(tmp_path / "x.tar", "app:1", APP))
    assert (made.id, made.tags) == (APP.id, ("docker.io/library/app:1",))
    assert made.digests == () and made.reported == APP.id
    assert (Path(made.rootfs) / "bin/app").read_bytes() == b"two"


def test_an_image_is_found_by_every_name_it_has(store: ImageStore, tmp_path: Path) -> None:
    load(store, oci_archive(tmp_path / "x.tar", {"app:1": APP}))
    names = ("app:1", "docker.io/library/app:1", APP.id, APP.id[7:], APP.id[7:19], f"app@{APP.digest}")
    assert all(store.find(name) is not None for name in names)
    assert store.find("app") is None and store.find("app:2") is None and store.find("no name") is None


def test_an_archive_without_a_name_needs_one(store: ImageStore, tmp_path: Path) -> None:
    file = oci_archive(tmp_path / "x.tar", {"": APP})
    with pytest.raises(BrokenImage, match="--tag"):
        load(store, file)
    assert load(store, file, "mine:1")[0].tags == ("docker.io/library/mine:1",)


def test_a_tag_moves_to_the_image_that_was_loaded_last(store: ImageStore, tmp_path: Path) -> None:
    other = build([{"bin/app": b"three"}])
    load(store, oci_archive(tmp_path / "x.tar", {"app:1": APP}))
    load(store, oci_archive(tmp_path / "y.tar", {"app:1": other}))
    found = store.find("app:1")
    assert found is not None and found.id == other.id
    assert {image.id: image.tags for image in store.images()}[APP.id] == ()


@pytest.mark.parametrize("damage", ["layer", "config", "manifest"])
def test_a_damaged_archive_leaves_nothing(store: ImageStore, tmp_path: Path, damage: str) -> None:
    image = build([{"bin/app": b"x" * 100}])
    if damage == "layer":
        image.blobs[next(key for key in image.blobs if key != image.id)] = b"else"
    elif damage == "config":
        image.blobs[image.id] = b"{}"
    else:
        image.manifest = image.manifest.replace(b"sha256:", b"sha999:")
    with pytest.raises(BrokenImage):
        load(store, _archive_as_is(tmp_path / "x.tar", image.manifest, image.blobs))
    store.sweep()
    assert store.images() == [] and left_over(store) == []


def _archive_as_is(file: Path, manifest: bytes, blobs: dict[str, bytes]) -> Path:
    from tests.support.containers.images import layer

    from podfit.images.content.digests import sha256

    entry = {"digest": sha256(manifest), "size": len(manifest)}
    index = {"manifests": [{**entry, "annotations": {"io.containerd.image.name": "app:1"}}]}
    files = {f"blobs/{digest.replace(':', '/')}": content for digest, content in blobs.items()}
    files["blobs/" + sha256(manifest).replace(":", "/")] = manifest
    file.write_bytes(layer({"index.json": json.dumps(index).encode(), **files}))
    return file


def test_a_removed_image_takes_its_files_with_it(store: ImageStore, tmp_path: Path) -> None:
    load(store, oci_archive(tmp_path / "x.tar", {"app:1": APP}))
    store.remove("app:1")
    assert store.find("app:1") is None and left_over(store) == []
    with pytest.raises(NoSuchImage):
        store.remove("app:1")


def test_removing_one_of_two_tags_keeps_the_image(store: ImageStore, tmp_path: Path) -> None:
    load(store, oci_archive(tmp_path / "x.tar", {"app:1": APP}))
    load(store, oci_archive(tmp_path / "y.tar", {"app:2": APP}))
    store.remove("app:1")
    found = store.find("app:2")
    assert found is not None and found.tags == ("docker.io/library/app:2",) and store.find("app:1") is None


def test_layers_that_another_image_needs_stay(store: ImageStore, tmp_path: Path) -> None:
    base = {"etc/base": b"shared"}
    first, second = build([base, {"a": b"1"}]), build([base, {"b": b"2"}])
    load(store, oci_archive(tmp_path / "x.tar", {"first:1": first}))
    load(store, oci_archive(tmp_path / "y.tar", {"second:1": second}))
    store.remove("first:1")
    assert {key for key in second.blobs if store.has(key)} == set(second.blobs)
    assert [key for key in first.blobs if key not in second.blobs and store.has(key)] == []


def test_an_image_in_use_stays_until_it_is_released(store: ImageStore, tmp_path: Path) -> None:
    load(store, oci_archive(tmp_path / "x.tar", {"app:1": APP}))
    store.lease(APP.id, "node-c1")
    with pytest.raises(ImageInUse, match="1 container runs on it"):
        store.remove("app:1")
    store.release(APP.id, "node-c1")
    store.remove("app:1")
    with pytest.raises(NoSuchImage):
        store.lease(APP.id, "node-c2")


def test_an_image_is_never_both_removed_and_given_to_a_container(store: ImageStore, tmp_path: Path) -> None:
    file = oci_archive(tmp_path / "x.tar", {"app:1": APP})
    for number in range(30):
        load(store, file)
        gone = threading.Event()

        def remove(gone: threading.Event = gone) -> None:
            try:
                ImageStore(store.folder, durable=False).remove("app:1")
                gone.set()
            except ImageInUse:
                pass

        thread = threading.Thread(target=remove)
        thread.start()
        time.sleep(random.random() * 0.004)
        try:
            held = store.lease(APP.id, f"node-{number}")
        except NoSuchImage:
            held = None
        thread.join()
        assert held is None or not gone.is_set()
        if held is not None:
            assert Path(held.rootfs, "bin/app").exists()
            store.release(APP.id, f"node-{number}")


def test_leases_of_containers_that_are_gone_are_dropped_and_those_of_other_nodes_kept(
    store: ImageStore, tmp_path: Path
) -> None:
    load(store, oci_archive(tmp_path / "x.tar", {"app:1": APP}))
    for owner in ("one-a", "one-b", "two-a"):
        store.lease(APP.id, owner)
    store.keep_leases("one", {"b"})
    assert store.leases(APP.id) == ["one-b", "two-a"]


def test_an_image_with_deleted_files_counts_as_absent(store: ImageStore, tmp_path: Path) -> None:
    import shutil

    file = oci_archive(tmp_path / "x.tar", {"app:1": APP})
    (made,) = load(store, file)
    shutil.rmtree(made.rootfs)
    assert store.find("app:1") is None and store.images() == []
    load(store, file)
    assert store.find("app:1") is not None


LOADER = """
import sys
from pathlib import Path
from podfit.images.archives import load
from podfit.images.store import ImageStore
store = ImageStore(Path(sys.argv[1]), durable=False)
store.prepare()
print("loading", flush=True)
while True:
    load(store, Path(sys.argv[2]))
    store.remove("app:1")
"""


def test_a_process_killed_while_it_loads_or_removes_leaves_whole_images_or_none(
    store: ImageStore, tmp_path: Path
) -> None:
    files = {f"etc/file{number}": os.urandom(2000) for number in range(40)}
    image = build([files, {"etc/last": b"here"}])
    archive = oci_archive(tmp_path / "x.tar", {"app:1": image})
    rounds = random.Random(7)
    for _ in range(12):
        command = [sys.executable, "-c", LOADER, str(store.folder), str(archive)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rounds.random() * 0.15)
            process.send_signal(signal.SIGKILL)
            process.wait()
        found = store.find("app:1")
        if found is not None:
            assert len(list(Path(found.rootfs, "etc").iterdir())) == len(files) + 1
    store.prepare()
    load(store, archive)
    store.remove("app:1")
    store.sweep(partials=True)
    assert left_over(store) == []


def test_two_processes_load_the_same_archive_at_once(store: ImageStore, tmp_path: Path) -> None:
    archive = oci_archive(tmp_path / "x.tar", {"app:1": APP})
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(10):
                load(ImageStore(store.folder, durable=False), archive)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and len(store.images()) == 1 and list((store.folder / "work").iterdir()) == []
