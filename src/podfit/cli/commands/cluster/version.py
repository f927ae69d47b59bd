"""`podfit version`: ours, and the server's."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from podfit.cli.options.connect import Context, Kubeconfig, connected
from podfit.cli.printing.output import DATA, DataOutput, check_format, echo, note, print_object
from podfit.cli.run import finish


def add_to(app: typer.Typer) -> None:
    app.command("version", help="Print the versions of podfit and of the server.")(version)


def version(
    client_only: Annotated[bool, typer.Option("--client", help="Print only the client's version.")] = False,
    output: DataOutput = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
) -> None:
    check_format(output, DATA)

    async def main() -> int:
        import platform

        from podfit import __version__

        versions: dict[str, Any] = {"podfit": __version__, "python": platform.python_version()}
        server, problem = ({}, "") if client_only else await _server(kubeconfig, context)
        if server:
            versions["server"] = server
        if output:
            print_object(output, versions)
        else:
            echo(f"podfit {__version__} (Python {platform.python_version()})")
            if server:
                echo(f"server {server.get('gitVersion', '?')}")
        if problem:
            note(f"podfit: server unknown: {problem}")
        return 1 if problem else 0

    finish(main())


async def _server(kubeconfig: str, context: str) -> tuple[dict[str, Any], str]:
    from podfit.api.status import ApiError
    from podfit.client.kubeconfig import BadKubeconfig
    from podfit.client.transport import Unreachable

    try:
        async with connected(kubeconfig, context, timeout_s=5.0) as session:
            return dict(await session.client.raw("GET", "/version")), ""
    except (ApiError, Unreachable, BadKubeconfig) as error:
        return {}, str(error)
