"""`-h` shows every option in full in a terminal of 80 columns, and the root command accepts --version."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests import inventory

from podfit import __version__
from podfit.cli.commands.workloads.resize import as_kubectl_reads

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


@pytest.mark.parametrize("component", ["recommender", "updater", "admission"])
def test_flags_of_the_autoscaler_fit_into_80_columns(component: str) -> None:
    page = podfit("vpa", component, "-h").stdout.splitlines()
    assert {line.strip().partition("=")[0] for line in page} >= inventory.flags()[f"vpa {component}"] - {"--help", "-h"}
    assert all(len(line) <= 80 for line in page)


@pytest.mark.parametrize("group", GROUPS)
def test_no_description_of_a_command_is_cut_at_80_columns(group: str) -> None:
    page = podfit(*group.split(), "-h").stdout
    commands = page.partition("Commands:")[2].splitlines()
    assert len(commands) > 1 and not [line for line in commands if line.endswith("...")]


def test_the_root_prints_its_version() -> None:
    done = podfit("--version")
    assert (done.returncode, done.stdout) == (0, f"podfit {__version__}\n")


def test_a_plugin_of_kubectl_names_itself_as_it_was_typed() -> None:
    plugin = Path(sys.executable).with_name("kubectl-podfit")
    done = subprocess.run([plugin, "nonsense"], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.startswith("Usage: kubectl podfit [OPTIONS]")


def test_completion_into_a_closed_pipe_causes_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "podfit.cli.main", "__complete", "resize", "-"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writer)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", ["recommend --price-cpu=nan", "backtest --step=nan", "top pods --interval=inf"])
def test_a_number_that_is_not_finite_is_a_wrong_option(words: str) -> None:
    done = podfit(*words.split())
    assert done.returncode == 2
    assert "is not a finite number." in done.stderr or "is not in the range" in done.stderr


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
        (["--wait=false", "web"], ["--no-wait", "web"]),
        (["--wait=true", "--", "--wait=false"], ["--wait", "--", "--wait=false"]),
    ],
)
def test_flags_of_resize_are_read_as_kubectl_does(typed: list[str], meant: list[str]) -> None:
    assert as_kubectl_reads(typed) == meant
