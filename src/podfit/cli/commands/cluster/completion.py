"""`podfit completion`: the completion script for a shell."""

from __future__ import annotations

from typing import Annotated

import typer

from podfit.cli.completing.scripts import SCRIPTS
from podfit.cli.printing.output import echo, usage_error


def add_to(app: typer.Typer) -> None:
    app.command("completion", help="Print a completion script for a shell.")(completion)


def completion(shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="The shell.")]) -> None:
    if shell not in SCRIPTS:
        usage_error(f"completion {shell!r}: it is bash, zsh or fish")
    echo(SCRIPTS[shell])
