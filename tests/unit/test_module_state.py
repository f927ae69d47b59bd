"""No mutable state below `compose`: a module contains constants and pure caches, and nothing that two clusters
could share.
"""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "podfit"
CONTAINERS = ("dict", "list", "set", "OrderedDict", "defaultdict", "deque", "WeakValueDictionary", "WeakKeyDictionary")
OF_THE_PROCESS = {
    "kit/uids.py: _ready",  # a stock of random texts
}
"""Containers of state that belongs to the whole process."""


def mutable(value: ast.expr | None) -> bool:
    """Whether an assigned value is an empty container, to be filled later."""
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List):
        return not value.elts
    return isinstance(value, ast.Call) and ast.unparse(value.func) in CONTAINERS and not value.args


def read_only(node: ast.stmt) -> bool:
    """Whether its declared type is immutable."""
    return isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).startswith(("Mapping", "ObjectView"))


def filled_later(path: Path) -> list[str]:
    found = []
    where = path.relative_to(SOURCE).as_posix()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and mutable(node.value) and not read_only(node):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            found.append(f"{where}: {ast.unparse(target)}")
    return found


def test_modules_keep_no_containers_that_are_filled_later() -> None:
    found = {name for path in SOURCE.rglob("*.py") for name in filled_later(path)}
    assert found == OF_THE_PROCESS


def test_modules_rebind_no_globals() -> None:
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(isinstance(node, ast.Global) for node in ast.walk(ast.parse(path.read_text())))
    }
    # libvirt has one event loop per process.
    assert found <= {"vm/machines/events.py"}
