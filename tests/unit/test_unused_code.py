"""Unused code does not ship: code for tests is in tests, and code that nothing uses is deleted."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import podfit

SOURCE = Path(podfit.__file__).parent
FOR_TESTS = frozenset(("FakeClock",))
"""The test implementation of the clock's protocol: tests and benchmarks advance it by hand."""
ENTRY_POINTS = frozenset(("complete",))
"""Named in pyproject.toml."""


def sources() -> dict[Path, str]:
    files = (path for path in SOURCE.rglob("*.py") if not path.stem.endswith("_pb2"))
    return {path.relative_to(SOURCE): path.read_text() for path in files}


def unused(files: dict[Path, str]) -> set[str]:
    """Functions and classes of modules whose name occurs nowhere except in their definition."""
    mentions = Counter(word for text in files.values() for word in re.findall(r"\w+", text))
    found = set()
    for path, text in files.items():
        for node in ast.parse(text).body:
            defined = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            if defined and not node.decorator_list and mentions[node.name] == 1:
                found.add(f"{path}: {node.name}")
    return found


def test_every_function_and_class_of_a_module_is_used_somewhere_in_podfit() -> None:
    names = {row.rpartition(" ")[2]: row for row in unused(sources())}
    assert {row for name, row in names.items() if name not in FOR_TESTS | ENTRY_POINTS} == set()


def test_a_function_that_nothing_calls_is_found() -> None:
    files = {Path("a.py"): "def used(): ...\ndef dead(): ...\n", Path("b.py"): "from a import used\n"}
    assert unused(files) == {"a.py: dead"}
