"""The packages that `make` would install on a fresh machine; none is installed twice."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def installs(target: str, venv: Path) -> list[str]:
    """The arguments of every `pip install` that the target would run, without running anything."""
    command = ["make", "--dry-run", target, f"VENV={venv}", "PYTHON=python3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return [line.split(" -e ")[1] for line in done.stdout.splitlines() if "/pip install" in line]


@pytest.mark.parametrize(
    ("target", "expected"),
    [("run", ['".[cri]"']), ("setup", ['".[cri]"']), ("check", ['".[cri]"', '".[cri,etcd,dev]"'])],
)
def test_development_tools_are_installed_for_checks_alone(tmp_path: Path, target: str, expected: list[str]) -> None:
    assert installs(target, tmp_path / "venv") == expected


def test_going_from_a_run_to_checks_and_back_adds_the_tools_once(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / ".ready").touch()
    assert installs("check", tmp_path) == ['".[cri,etcd,dev]"']
    (tmp_path / "bin" / ".dev-ready").touch()
    assert installs("run", tmp_path) == installs("check", tmp_path) == []
