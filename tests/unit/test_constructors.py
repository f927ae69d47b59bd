"""Components are complete once they are constructed: few collaborators each, and no callback assigned afterwards."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import podfit

SOURCE = Path(podfit.__file__).parent
MOST = 8
VALUES = ("str", "int", "float", "bool", "bytes", "Path")
"""Types of settings: a constructor's other parameters are collaborators."""
ATTACHED = {
    "apiserver/server.py: response.on_sent": "a field of a response",
    "apiserver/subresources/scale.py: write.track": "a field of a write",
    "images/content/layers.py: members.extraction_filter": "tarfile's own setting",
    "vm/moving/departures.py: lives.departed": "a VM that ends may have moved, and moving ends VMs",
    "vm/runtime.py: self.hypervisor.returned": "a recovery asks the hypervisor that reports its return",
    "vpa/recommender/decide/histograms/cluster.py: fleet.lost_row": "rows are freed for new containers and read again",
    "vpa/recommender/loop.py: self.history.api.measured": "a history exists before the registry of its metrics",
}


@functools.cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    paths = (path for path in SOURCE.rglob("*.py") if not path.stem.endswith("_pb2"))
    return tuple((path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text())) for path in paths)


def collaborators(constructor: ast.FunctionDef) -> list[str]:
    given = constructor.args.posonlyargs + constructor.args.args[1:] + constructor.args.kwonlyargs
    return [
        item.arg for item in given if ast.unparse(item.annotation or ast.Constant("")).split(" | ")[0] not in VALUES
    ]


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def methods_of(trees: Iterable[ast.Module]) -> set[str]:
    """Names that are methods in every class that defines them: never a property or a field."""
    methods, values = set[str](), set[str]()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            (values if is_property(node) else methods).add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            values.add(node.target.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            values.add(node.attr)
    return methods - values


def assignments(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=True)
        else:
            yield target, node.value


def attached(module: ast.Module, methods: set[str]) -> Iterator[str]:
    """Attributes of other objects that are set to a lambda, a method or a function."""
    inside = {member for node in ast.walk(module) if isinstance(node, ast.ClassDef) for member in node.body}
    defined = (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    named = {node.name: node in inside for node in defined if not node.decorator_list}
    for node in ast.walk(module):
        for target, value in assignments(node) if isinstance(node, ast.Assign) else ():
            if not isinstance(target, ast.Attribute) or ast.unparse(target.value) in ("self", "cls"):
                continue
            own = isinstance(value, ast.Attribute) and ast.unparse(value.value) == "self" and named.get(value.attr)
            is_method = own or (isinstance(value, ast.Attribute) and value.attr in methods)
            is_function = isinstance(value, ast.Name) and named.get(value.id) is False
            if is_method or is_function or isinstance(value, ast.Lambda):
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
    methods = methods_of(module for _, module in modules())
    assert {f"{where}: {name}" for where, module in modules() for name in attached(module, methods)} == set(ATTACHED)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("part.on_end = self.ended", ["part.on_end"]),
        ("part.on_end, part.size = self._other.ended, size", ["part.on_end"]),
        ("self.on_end = self.ended", []),
        ("part.size = size", []),
    ],
)
def test_an_attached_callback_is_found(line: str, names: list[str]) -> None:
    module = ast.parse(f"class A:\n    def __init__(self, part, size):\n        {line}\n    def ended(self): ...\n")
    assert list(attached(module, methods_of([module]))) == names
