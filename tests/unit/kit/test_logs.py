"""Logs go to stderr, and warnings are written without any option."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import logging, sys
from podfit.kit.process.logs import setup_logs
setup_logs(int(sys.argv[1]))
for level in (logging.DEBUG, logging.INFO, logging.WARNING):
    logging.getLogger("podfit.part").log(level, logging.getLevelName(level).lower())
"""


@pytest.mark.parametrize(
    ("verbosity", "expected"), [(0, ["warning"]), (1, ["info", "warning"]), (2, ["debug", "info", "warning"])]
)
def test_each_level_of_verbosity_adds_one_level_of_log(verbosity: int, expected: list[str]) -> None:
    command = [sys.executable, "-c", SCRIPT, str(verbosity)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""
    assert [line.split()[-1] for line in done.stderr.splitlines()] == expected
