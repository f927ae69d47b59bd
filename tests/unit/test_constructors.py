"""Parts are whole once they are built: few collaborators each, and no callback hung on a part afterwards."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

import podfit

SOURCE = Path(podfit.__file__).parent
MOST = 8
VALUES = ("str", "int", "float", "bool", "bytes", "Path")
"""Types of settings: a constructor's other parameters are collaborators."""
ATTACHED = {
    "images/content/layers.py: members.extraction_filter": "tarfile's own setting",
    "vm/moving/departures.py: lives.departed": "a VM that ends may have moved, and moving ends VMs",
    "vpa/recommender/decide/histograms/cluster.py: fleet.lost_row": "rows are freed for new containers and read again",
}


@functools.cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    paths = (path for path in SOURCE.rglob("*.py") if not path.stem.endswith("_pb2"))
    return tuple((path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text())) for path in paths)


def collaborators(constructor: ast.FunctionDef) -> list[str]:
    given = constructor.args.posonlyargs + constructor.args.args[1:] + constructor.args.kwonlyargs
    return [one.arg for one in given if ast.unparse(one.annotation or ast.Constant("")).split(" | ")[0] not in VALUES]


def attached(module: ast.Module) -> Iterator[str]:
    """Attributes of other objects that are set to a lambda or a method."""
    methods = {
        node.name
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list
    }
    for node in ast.walk(module):
        if not isinstance(node, ast.Assign):
            continue
        value = node.value
        name = value.attr if isinstance(value, ast.Attribute) and ast.unparse(value.value) == "self" else ""
        if isinstance(value, ast.Lambda) or name in methods:
            for target in node.targets:
                if isinstance(target, ast.Attribute) and ast.unparse(target.value) not in ("self", "cls"):
                    yield ast.unparse(target)


def test_no_constructor_takes_more_than_eight_collaborators() -> None:
    found = {
        f"{where}: {node.name}": len(collaborators(method))
        for where, module in modules()
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
    }
    assert len(found) > 200
    assert {name: count for name, count in found.items() if count > MOST} == {}


def test_no_callback_is_attached_to_a_part_that_was_built() -> None:
    assert {f"{where}: {name}" for where, module in modules() for name in attached(module)} == set(ATTACHED)


@pytest.mark.parametrize(
    ("line", "names"),
    [("part.on_end = self.ended", ["part.on_end"]), ("self.on_end = self.ended", []), ("part.size = size", [])],
)
def test_an_attached_callback_is_found(line: str, names: list[str]) -> None:
    module = ast.parse(f"class A:\n    def __init__(self, part, size):\n        {line}\n    def ended(self): ...\n")
    assert list(attached(module)) == names
