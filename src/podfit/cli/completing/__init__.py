"""Completion for shells: candidates for a command line, in the protocol in which kubectl asks plugins.

A candidate a line, its description after a tab; the last line is `:` and the sum of what the shell is to do:
2 add no space, 4 no file names, 16 names of folders.
"""

from __future__ import annotations

import sys


def main() -> None:
    """`kubectl_complete-podfit WORD…`: the last word is the one to complete, empty where a new one begins."""
    from podfit.cli.completing.answers import print_answer
    from podfit.cli.main import app

    print_answer(app, sys.argv[1:])
