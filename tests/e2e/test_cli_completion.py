"""Tab completes commands, options and objects of the cluster in bash, zsh and fish, and after `kubectl podfit`."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from podfit.cli.printing.output import DATA, OBJECTS, PAGES, TABLES
from tests.e2e.conftest import KUBECTL, Running
from tests.e2e.test_cli_commands import POD

BIN = Path(sys.executable).parent


def environment(up: Running) -> dict[str, str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    given = {"KUBECONFIG": str(up.kubeconfig), "HOME": str(up.folder), "PATH": path, "TERM": "dumb"}
    return {**os.environ, **given, "PODFIT_COMPLETION_TIMEOUT": "60"}


@pytest.fixture(scope="module")
def shop(up: Running) -> Iterator[Running]:
    up.kubectl("apply", "-f", "-", stdin=(POD % "tabbed").replace("name: c\n", "name: cashier\n"))
    up.kubectl("create", "deployment", "tabs", "--image=host", "--replicas=0", "--", "sleep", "3600")
    yield up
    up.kubectl("delete", "pod/tabbed", "deployment/tabs", "--now")


def candidates(up: Running, *words: str) -> tuple[list[str], int]:
    done = subprocess.run(
        [sys.executable, "-m", "podfit.cli.main", "__complete", *words],
        env=environment(up), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    *found, directive = done.stdout.splitlines()
    return [line.partition("\t")[0] for line in found], int(directive.removeprefix(":"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["resi"], ["resize"]),
        (["resize", "tabb"], ["tabbed"]),
        (["resize", "deployment/"], ["deployment/tabs"]),
        (["resize", "deploy", ""], ["tabs"]),
        (["resize", "tabbed", "-c", ""], ["cashier"]),
        (["resize", "tabbed", "--container=ca"], ["cashier"]),
        (["resize", "--dry-run="], ["none", "client", "server"]),
        (["top", "-n", "kube-p"], ["kube-public"]),
        (["top", "-n", "kube-public", "--context", ""], ["podfit"]),
        (["describe", "no"], ["nodes"]),
        (["describe", "node", ""], ["n1"]),
        (["describe", "pod/tabb"], ["pod/tabbed"]),
        (["explain", "resize", "tabb"], ["tabbed"]),
        (["explain", "v"], ["vpa"]),
        (["events", "--for", "pod/tabb"], ["pod/tabbed"]),
        (["vpa", "recommender", "--pod-recommendation-min-m"], ["--pod-recommendation-min-memory-mb="]),
        (["token", "cre"], ["create"]),
        (["resize", "--no-w"], ["--no-wait"]),
        (["resize", "--", "--no"], []),
    ],
)
def test_words_come_from_the_commands_and_the_cluster(shop: Running, words: list[str], expected: list[str]) -> None:
    found, directive = candidates(shop, *words)
    assert found == expected and directive & 4


@pytest.mark.parametrize(
    ("command", "formats"),
    [
        ("top", TABLES),
        ("events", TABLES),
        ("describe", PAGES),
        ("resize", OBJECTS),
        ("clusters", OBJECTS),
        ("explain", DATA),
        ("doctor", DATA),
    ],
)
def test_formats_are_those_that_the_command_takes(up: Running, command: str, formats: tuple[str, ...]) -> None:
    assert candidates(up, command, "-o", "")[0] == [entry for entry in formats if entry]


def test_names_of_files_are_left_to_the_shell_only_where_a_file_is_meant(up: Running) -> None:
    assert candidates(up, "top", "--kubeconfig", "") == ([], 0)
    assert candidates(up, "up", "--data-dir", "") == ([], 16)
    assert candidates(up, "resize", "x", "--cpu", "") == ([], 4)


def test_an_unreachable_cluster_gives_no_candidates_and_no_noise(up: Running, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "podfit.cli.main", "__complete", "describe", "pod", ""],
        env={**environment(up), "KUBECONFIG": str(tmp_path / "none")},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (":4\n", "")


def test_kubectl_completes_its_plugin(shop: Running) -> None:
    """kubectl runs the executable kubectl_complete-podfit, which the package installs."""
    assert KUBECTL is not None
    done = subprocess.run(
        [KUBECTL, "__complete", "podfit", "resize", "tabbed", "-c", ""],
        env=environment(shop), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["cashier", ":4"], done.stderr


def typed(command: list[str], up: Running, setup: str, keys: str, expected: str) -> str:
    """Types into an interactive shell and reads its terminal until that shows `expected`."""
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe(command[0], command, environment(up))
    seen = ""

    def until(text: str) -> None:
        nonlocal seen
        end = time.monotonic() + 60
        while text not in seen:
            assert time.monotonic() < end, f"never {text!r} in {seen!r}"
            if select.select([terminal], [], [], 1.0)[0]:
                seen += os.read(terminal, 65536).decode(errors="replace")

    try:
        os.write(terminal, f"{setup}; echo rea''dy\n".encode())
        until("ready")
        seen = ""
        os.write(terminal, keys.encode())
        until(expected)
        return seen
    finally:
        os.write(terminal, b"\x03exit\n")
        os.close(terminal)
        os.waitpid(process, 0)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("podfit resize tabb\t", "podfit resize tabbed "),
        ("podfit resize --dry-run=ser\t", "--dry-run=server"),
        ("podfit top -o js\t", "podfit top -o json "),
        ("podfit resize deployment/ta\t", "deployment/tabs "),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_tab_completes_in_a_shell(shop: Running, shell: str, keys: str, expected: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    if shell == "bash":
        typed(["bash", "--norc", "-i"], shop, "source <(podfit completion bash)", keys, expected)
    else:
        setup = "autoload -Uz compinit; compinit -u -D; source <(podfit completion zsh)"
        typed(["zsh", "-f", "-i"], shop, setup, keys, expected)


def test_fish_completes(shop: Running) -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed")
    for line, expected in (
        ("podfit resize tabb", "tabbed"),
        ("podfit top -o js", "json"),
        ("podfit resize --dry-run=ser", "--dry-run=server"),
        ("podfit resi", "resize\tResize running pods in place and wait for completion."),
    ):
        script = f'podfit completion fish | source; complete -C "{line}"'
        done = subprocess.run(
            [fish, "--no-config", "-c", script], env=environment(shop), capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        assert done.stdout.splitlines() == [expected], (line, done.stderr)
