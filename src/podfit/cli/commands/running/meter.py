"""`podfit meter`: serves metrics.k8s.io for any API server."""

from __future__ import annotations

from typing import Annotated

import typer

from podfit.cli.options.components import (
    Kubeconfig,
    Verbose,
)
from podfit.cli.options.ports import (
    host_port,
)
from podfit.cli.run import run, serve


def add_to(app: typer.Typer) -> None:
    app.command("meter", help="Serve metrics.k8s.io (for kubectl top) to any API server.")(meter)


def reachable(url: str) -> None:
    from podfit.compose import BadSetting
    from podfit.meter.placement import Place

    try:
        Place.of(url)
    except ValueError as error:
        raise BadSetting(f"--url: {error}") from error


def meter(
    kubeconfig: Kubeconfig = "",
    listen: Annotated[
        str,
        typer.Option(
            "--listen", metavar="HOST:PORT", help="The address on which the meter listens; port 0: any free port."
        ),
    ] = "127.0.0.1:0",
    url: Annotated[
        str,
        typer.Option(
            "--url", help="The URL at which the API server reaches the meter; default: the address of --listen."
        ),
    ] = "",
    resolution: Annotated[
        float, typer.Option("--resolution", min=1, max=60, help="Seconds between measurements of usage.")
    ] = 15.0,
    verbose: Verbose = 0,
) -> None:
    from podfit.client.kubeconfig import load
    from podfit.compose import MeterAlone

    host, port = host_port(listen)
    if url:
        reachable(url)
    alone = MeterAlone(load(kubeconfig), host, port, url, resolution)

    async def main() -> None:
        async def start() -> str:
            return f"ready {await alone.start()}"

        await serve(start, alone.stop)

    run(main(), verbose)
