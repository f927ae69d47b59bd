"""`podfit image`: the images of the nodes of a data directory, whether podfit is running there or not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from podfit.cli.clusters import DEFAULT_DATA, DataDir, Name, chosen
from podfit.cli.options.image_options import InsecureRegistry
from podfit.cli.printing.output import (
    OBJECTS,
    check_format,
    echo,
    list_of,
    note,
    output_option,
    print_object,
    span,
    table,
)
from podfit.cli.run import run

if TYPE_CHECKING:
    from podfit.images.index import StoredImage
    from podfit.images.registries.credentials import Credentials
    from podfit.images.store import ImageStore

HEADER = ("IMAGE", "ID", "SIZE", "ADDED", "CONTAINERS")
PROCESS, VM = RUNTIMES = ("process", "vm")
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def add_to(app: typer.Typer) -> None:
    images = typer.Typer(help="Manage the images on this machine.", no_args_is_help=True, rich_markup_mode=None)
    images.command("load", help="Load images from OCI or Docker archives.")(load)
    images.command("ls", help="List the images.")(ls)
    images.command("rm", help="Remove images that no container uses.")(rm)
    images.command("pull", help="Pull images from their registries.")(pull)
    app.add_typer(images, name="image")


def load(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="OCI archives, or archives written by `docker save`.")
    ],
    tag: Annotated[
        str, typer.Option("--tag", metavar="NAME", help="The name for the image, instead of the one in the archive.")
    ] = "",
    runtime: Annotated[
        str,
        typer.Option("--runtime", help="The runtime that the images are for, process or vm; both use the same store."),
    ] = "process",
    data_dir: DataDir = DEFAULT_DATA,
    name: Name = "",
) -> None:
    from podfit.compose import BadSetting
    from podfit.images.archives import load as load_archive

    if runtime not in RUNTIMES:
        raise BadSetting(f"--runtime {runtime!r}: must be {' or '.join(RUNTIMES)}; a CRI runtime keeps its own images")
    store = _store(name, data_dir)
    for file in files:
        for image in load_archive(store, file, tag):
            _added("loaded", image)
            if runtime == VM and not _boots(image):
                note("No VM starts from it: it has neither a disk under /disk/ nor a kernel /boot/vmlinuz.")


def pull(
    images: Annotated[
        list[str], typer.Argument(metavar="IMAGE…", help="The images, such as nginx:1.27 or ghcr.io/team/app:1.")
    ],
    insecure_registry: InsecureRegistry = None,
    data_dir: DataDir = DEFAULT_DATA,
    name: Name = "",
) -> None:
    from podfit.images.references import parse

    store, references = _store(name, data_dir), [parse(image) for image in images]

    async def main() -> None:
        from podfit.images.errors import PullFailed
        from podfit.images.registries.credentials import keyring_in, user_file
        from podfit.images.registries.pull import Puller

        puller = Puller(store, tuple(insecure_registry or ()))
        for reference in references:
            failures = []
            tries: list[Credentials | None] = [*keyring_in(user_file()).lookup(reference)] or [None]
            for credentials in tries:
                try:
                    _added("pulled", await puller.pull(reference, credentials))
                    break
                except PullFailed as error:
                    failures.append(error)
            else:
                raise failures[0]

    run(main(), 0)


def ls(
    output: Annotated[str, output_option(OBJECTS, "a table")] = "",
    data_dir: DataDir = DEFAULT_DATA,
    name: Name = "",
) -> None:
    check_format(output, OBJECTS)
    store = _store(name, data_dir, make=False)
    images = sorted(store.images(), key=lambda image: image.tags or image.digests or (image.id,))
    if output in ("json", "yaml"):
        print_object(output, list_of([_object(store, image) for image in images]))
    elif output == "name":
        for image in images:
            echo((image.tags or image.digests or (image.id,))[0])
    elif not images:
        note("No images. Add one with `podfit image pull` or `podfit image load`.")
    else:
        echo(table([row for image in images for row in _rows(store, image)], HEADER))


def rm(
    images: Annotated[list[str], typer.Argument(metavar="IMAGE…", help="Names or IDs; 12 digits of an ID suffice.")],
    data_dir: DataDir = DEFAULT_DATA,
    name: Name = "",
) -> None:
    store = _store(name, data_dir)
    for image in images:
        store.remove(image)
        echo(f"removed {image}")


def _store(name: str, data_dir: Path, make: bool = True) -> ImageStore:
    from podfit.images.store import IMAGES, ImageStore

    folder = chosen(name, data_dir).data_dir
    store = ImageStore(folder / IMAGES)
    if make:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        store.prepare()
    return store


def _added(how: str, image: StoredImage) -> None:
    echo(f"{how} {(image.tags or image.digests)[0]} ({image.hex[:12]}, {_size(image.size_bytes)})")


def _boots(image: StoredImage) -> bool:
    root = Path(image.rootfs)
    return (root / "boot/vmlinuz").is_file() or any((root / "disk").glob("*"))


def _rows(store: ImageStore, image: StoredImage) -> list[list[str]]:
    age, users = span(max(time.time() - image.added_at, 0.0)), str(len(store.leases(image.id)))
    names = image.tags or image.digests[:1] or ("<none>",)
    return [[tag, image.hex[:12], _size(image.size_bytes), age, users] for tag in names]


def _object(store: ImageStore, image: StoredImage) -> dict[str, Any]:
    return {
        "id": image.id,
        "tags": list(image.tags),
        "digests": list(image.digests),
        "sizeBytes": image.size_bytes,
        "containers": len(store.leases(image.id)),
    }


def _size(size: int) -> str:
    steps = min((size.bit_length() - 1) // 10, len(_UNITS) - 1) if size else 0
    return f"{size / 1024**steps:.1f} {_UNITS[steps]}" if steps else f"{size} B"
