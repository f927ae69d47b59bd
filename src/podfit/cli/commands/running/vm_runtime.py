"""`podfit vm-runtime`: a container runtime whose containers are virtual machines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podfit.cli.options.components import Verbose
from podfit.cli.run import run_with_forks, serve

if TYPE_CHECKING:
    from podfit.vm.server.server import Settings

DEFAULT_FOLDER = Path("/var/lib/podfit/vm")
NETWORKS = ("auto", "bridge", "cni", "user", "none")
DEFAULT_SOCKET = "unix:///run/podfit/vm.sock"


def add_to(app: typer.Typer) -> None:
    app.command("vm-runtime", help="Run a container runtime (CRI) whose containers are VMs.")(vm_runtime)


def vm_runtime(
    data_dir: Annotated[
        Path, typer.Option("--data-dir", help="The folder with images, disks and metadata of VMs.")
    ] = DEFAULT_FOLDER,
    listen: Annotated[
        str,
        typer.Option(
            "--listen", metavar="unix://PATH", help="The socket on which the CRI runtime and image services are served."
        ),
    ] = DEFAULT_SOCKET,
    libvirt_socket: Annotated[
        str,
        typer.Option(
            "--libvirt-socket",
            metavar="PATH",
            help="Use the libvirt daemon at this socket; default: libvirt in this process.",
        ),
    ] = "",
    migration_uri: Annotated[
        str,
        typer.Option(
            "--migration-uri",
            metavar="URI",
            help="The URI of the libvirt daemon for migration from other hosts; default: its local socket.",
        ),
    ] = "",
    accel: Annotated[str, typer.Option("--accel", help="The accelerator of VMs: tcg (emulation) or kvm.")] = "tcg",
    network: Annotated[
        str,
        typer.Option(
            "--network",
            help="auto (CNI if configured, otherwise bridge), bridge, cni, user (outgoing connections only) or none.",
        ),
    ] = "auto",
    images: Annotated[
        Path | None, typer.Option("--images", help="The folder of the image store; default: one in the data directory.")
    ] = None,
    insecure_registry: Annotated[
        list[str] | None,
        typer.Option(
            "--insecure-registry", metavar="HOST[:PORT]", help="A registry to access without TLS; may be repeated."
        ),
    ] = None,
    image_archive: Annotated[
        list[Path] | None, typer.Option("--image-archive", help="An OCI archive to load at startup; may be repeated.")
    ] = None,
    verbose: Verbose = 0,
) -> None:
    # libvirt forks in this process; gRPC's handlers for forks would abort its children.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ.setdefault("LIBVIRT_LOG_OUTPUTS", f"3:file:{data_dir.absolute() / 'libvirt.log'}")
    from podfit.compose import BadSetting

    try:
        from podfit.vm.server.server import Settings
    except ImportError as error:
        raise BadSetting(f"VMs need more packages: pip install 'podfit[vm]' ({error})") from error

    if not listen.startswith("unix://") or not listen.removeprefix("unix://").startswith("/"):
        raise BadSetting(f"--listen {listen!r}: must be unix:// and an absolute path")
    if accel not in ("tcg", "kvm"):
        raise BadSetting(f"--accel {accel!r}: must be tcg or kvm")
    if network not in NETWORKS:
        raise BadSetting(f"--network {network!r}: must be one of {', '.join(NETWORKS)}")
    settings = Settings(
        folder=data_dir,
        socket=Path(listen.removeprefix("unix://")),
        libvirt_socket=libvirt_socket,
        migration_uri=migration_uri,
        accelerated=accel == "kvm",
        network=network,
        images=images,
        insecure_registries=tuple(insecure_registry or ()),
        archives=tuple(image_archive or ()),
    )
    run_with_forks(_serve(settings), verbose)


async def _serve(settings: Settings) -> None:
    from podfit.vm.server.server import Server

    server = Server(settings)

    async def start() -> str:
        await server.start()
        return f"ready unix://{settings.socket}"

    await serve(start, server.stop)
