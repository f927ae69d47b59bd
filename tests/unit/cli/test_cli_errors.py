"""Errors for users are named in the command line, because importing all of podfit would slow every command down."""

from __future__ import annotations

import re
from pathlib import Path

import podfit
from podfit.cli.main import FOR_USERS


def test_each_error_for_users_is_a_class_of_podfit() -> None:
    source = Path(podfit.__file__).parent
    classes = {name for file in source.rglob("*.py") for name in re.findall(r"^class (\w+)", file.read_text(), re.M)}
    assert not FOR_USERS - classes
