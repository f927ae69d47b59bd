"""`podfit install vpa`: installs the autoscaler into a cluster, after checking its prerequisites."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from podfit.cli.options.connect import FAILED, OK, REFUSED, WAITING, Context, Kubeconfig, connected
from podfit.cli.printing.output import echo, note
from podfit.cli.run import finish

if TYPE_CHECKING:
    from podfit.api.objects import Object
    from podfit.client import Client


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(help="Install parts of podfit into a cluster.", no_args_is_help=True, rich_markup_mode=None)
    group.command("vpa", help="Install the vertical autoscaler.")(vpa)
    group.callback()(lambda: None)
    app.add_typer(group, name="install")


def vpa(
    image: Annotated[str, typer.Option("--image", help="The image of the autoscaler's containers.")] = "podfit:latest",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the requirements and validate on the server; change nothing.")
    ] = False,
    without_metrics: Annotated[
        bool, typer.Option("--without-metrics", help="Install even if nothing serves metrics.k8s.io.")
    ] = False,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=0, help="Seconds to wait until the components are ready."),
    ] = 180.0,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
) -> None:
    from podfit.cli.installing.manifests import images, manifests

    bodies = manifests("vpa", image)

    async def main() -> int:
        async with connected(kubeconfig, context) as session:
            if refusals := await _refusals(session.client, bodies, without_metrics):
                for line in refusals:
                    note(f"podfit: {line}")
                return REFUSED
            await _apply(session.client, bodies, dry_run)
            if dry_run:
                return OK
            return await _await(session.client, bodies, timeout, ", ".join(images(bodies)))

    finish(main())


async def _refusals(client: Client, bodies: list[Object], without_metrics: bool) -> list[str]:
    from podfit.cli.installing import checks

    if why := await checks.old_server(client):
        return [why]
    if missing := await checks.missing_rights(client, bodies):
        return [f"you may not {permission}" for permission in missing]
    if why := await checks.other_autoscaler(client, bodies):
        return [why]
    why = await checks.missing_metrics(client)
    if why and not without_metrics:
        advice = "install metrics-server, or podfit meter (deploy/meter); --without-metrics installs anyway"
        return [f"{why}: the autoscaler would recommend nothing; {advice}"]
    return []


async def _apply(client: Client, bodies: list[Object], dry_run: bool) -> None:
    from podfit.api.registry.kinds import kind_named
    from podfit.client.rest import APPLY

    query = {"fieldManager": "podfit", "force": "true", **({"dryRun": "All"} if dry_run else {})}
    for body in bodies:
        kind, meta = kind_named(body["kind"]), body["metadata"]
        path = kind.path(meta.get("namespace", "") if kind.namespaced else "", meta["name"])
        await client.raw("PATCH", path, query, body, APPLY)
        group = f".{kind.group}" if kind.group else ""
        echo(f"{kind.kind.lower()}{group}/{meta['name']} applied" + (" (dry run)" if dry_run else ""))


async def _await(client: Client, bodies: list[Object], timeout: float, image: str) -> int:
    from podfit.cli.installing.rollout import works

    if timeout == 0:
        return OK
    if await works(client, bodies, note, timeout):
        echo("the autoscaler works")
        return OK
    note(f"podfit: it does not work after {timeout:g}s; nodes need the image {image} (docs/vpa.md)")
    return WAITING if bodies else FAILED
