"""`podfit completion`: the script that completes podfit's words in a shell."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from podfit.cli.output import say, wrong

SHELLS = ("bash", "zsh", "fish")
ASKED = "_PODFIT_COMPLETE"
"""Set by those scripts when a shell asks for the words that may follow."""


def prepare() -> None:
    """Makes the shells known that may ask; only then, for it costs time at every start."""
    if ASKED in os.environ:
        import typer.completion as scripts

        scripts.completion_init()  # type: ignore[attr-defined]


def add_to(app: typer.Typer) -> None:
    app.command("completion", help="Print a completion script: source <(podfit completion bash)")(completion)


def completion(shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="For which shell.")]) -> None:
    import typer.completion as scripts

    if shell not in SHELLS:
        wrong(f"completion {shell!r}: it is bash, zsh or fish")
    say(scripts.get_completion_script(prog_name="podfit", complete_var=ASKED, shell=shell))  # type: ignore[attr-defined]
