"""Prints the candidates for a command line, in the protocol that kubectl uses for plugins."""

from __future__ import annotations

import contextlib

import typer

from podfit.cli.completing.directives import NO_FILES


def print_answer(app: typer.Typer, words: list[str]) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(answer(app, words), flush=True)


def answer(app: typer.Typer, words: list[str]) -> str:
    """Prints the candidates; none on an error, which must not disturb the command line that is being typed."""
    from podfit.cli.completing.candidates import complete

    try:
        found, directive = complete(app, words or [""])
    except Exception:
        found, directive = [], NO_FILES
    return "\n".join([*found, f":{directive}"])
