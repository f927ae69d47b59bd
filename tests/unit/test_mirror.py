"""Tests mirror the source: decisions, and the working parts of agent, store and scheduler, have a test file each."""

from __future__ import annotations

import ast
from pathlib import Path

UNIT = Path(__file__).resolve().parent
SOURCE = UNIT.parents[1] / "src" / "podfit"
AGENT = ("actuation", "allocation", "containers", "phases", "pods", "roster", "status")
SETTINGS = ("config.py", "metrics.py")
"""Modules of names and numbers: their meaning is tested where they are used."""


def decides(module: Path) -> bool:
    return "decide" in module.parts or module.name == "decide.py"


def works(module: Path) -> bool:
    part, *rest = module.parts
    if module.name in SETTINGS:
        return False
    if part == "agent":
        return len(rest) == 1 or rest[0] in AGENT
    return part in ("store", "scheduler")


def has_code(file: Path) -> bool:
    """A function with more than a docstring: protocols and plain values have nothing to test."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = [
                line for line in node.body if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
            ]
            if body:
                return True
    return False


def unmirrored() -> set[str]:
    found = set()
    for file in SOURCE.rglob("*.py"):
        module = file.relative_to(SOURCE)
        if module.name == "__init__.py" or not (decides(module) or works(module)) or not has_code(file):
            continue
        if not (UNIT / module.parent / f"test_{module.name}").exists():
            found.add(str(module))
    return found


def test_each_decision_and_each_working_part_has_a_test_file_of_its_name() -> None:
    assert unmirrored() == set()
