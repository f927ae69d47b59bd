"""docs/security.md claims nothing without a test: every row names tests, and all of them exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
NAMED = re.compile(r"`(test_\w+(?:\.py)?)`")


def known() -> set[str]:
    """The names of all tests, and of their files."""
    files = list((ROOT / "tests").rglob("test_*.py"))
    found = {file.name for file in files}
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
                found.add(node.name)
    return found


def rows() -> list[str]:
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    heads = {at - 1 for at, line in enumerate(lines) if line.startswith("|---")}
    return [line for at, line in enumerate(lines) if at not in heads and not line.startswith("|---")]


def test_every_test_that_the_page_names_exists() -> None:
    assert not sorted(set(NAMED.findall(PAGE)) - known())


@pytest.mark.parametrize("row", rows())
def test_every_claim_names_a_test(row: str) -> None:
    assert NAMED.search(row.rsplit("|", 2)[1]), row
