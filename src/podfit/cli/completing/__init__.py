"""Completion for shells: candidates for a command line, in the protocol that kubectl asks plugins in.

A candidate a line, its description after a tab; the last line is `:` and the sum of what the shell is to do:
2 add no space, 4 no file names, 16 names of folders.
"""

from __future__ import annotations

import contextlib
import sys

NO_SPACE, NO_FILES, FOLDERS = 2, 4, 16


def main() -> None:
    """`kubectl_complete-podfit WORD…`: the last word is the one to complete, empty where a new one begins."""
    print_answer(sys.argv[1:])


def print_answer(words: list[str]) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(answer(words), flush=True)


def answer(words: list[str]) -> str:
    """An error must not disturb the command line that is being typed: it means no candidates."""
    from podfit.cli.completing.candidates import complete

    try:
        found, directive = complete(words or [""])
    except Exception:
        found, directive = [], NO_FILES
    return "\n".join([*found, f":{directive}"])
