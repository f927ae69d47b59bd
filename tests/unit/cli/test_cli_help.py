"""`-h` shows every option whole in a terminal of 80 columns, and the root takes --version."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from tests import inventory

from podfit import __version__
from podfit.cli.commands.resize import with_dry_run_mode

OWN = sorted(name for name in inventory.flags() if not name.startswith("vpa "))
GROUPS = ["", "token", "vpa"]


def podfit(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "podfit.cli.main", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("command", OWN)
def test_no_option_name_is_cut_at_80_columns(command: str) -> None:
    page = podfit(*command.split(), "-h").stdout
    shown = {word.rstrip(",") for line in page.splitlines() for word in line.split() if word.startswith("-")}
    assert inventory.flags()[command] <= shown
    assert all(len(line) <= 80 for line in page.splitlines())
    assert not re.search(r"<(str|int|float|bool|list|path)\b", page)


@pytest.mark.parametrize("group", GROUPS)
def test_no_description_of_a_command_is_cut_at_80_columns(group: str) -> None:
    page = podfit(*group.split(), "-h").stdout
    commands = page.partition("Commands:")[2].splitlines()
    assert len(commands) > 1 and not [line for line in commands if line.endswith("...")]


def test_the_root_prints_its_version() -> None:
    done = podfit("--version")
    assert (done.returncode, done.stdout) == (0, f"podfit {__version__}\n")


def test_a_wrong_option_is_named_in_plain_text() -> None:
    done = podfit("resize", "--flavour")
    assert done.returncode == 2 and done.stderr.endswith("Error: No such option: --flavour\n")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["--dry-run"], ["--dry-run=client"]),
        (["--dry-run", "web"], ["--dry-run=client", "web"]),
        (["--dry-run", "server", "web"], ["--dry-run", "server", "web"]),
        (["--dry-run=server"], ["--dry-run=server"]),
        (["--", "--dry-run"], ["--", "--dry-run"]),
    ],
)
def test_dry_run_alone_means_client(typed: list[str], meant: list[str]) -> None:
    assert with_dry_run_mode(typed) == meant
