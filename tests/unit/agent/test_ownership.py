"""Each field of a pod's record, and each state of a resize, is written by one module of the agent.

The owners are read from `pods/record.py`, where each field is listed below the name of the module that may assign it.
The source is parsed to a syntax tree: a write in any other module fails here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import podfit.agent
from podfit.agent.pods.record import PodRecord

ROOT = Path(podfit.agent.__file__).parent
RECORD = "pods/record.py"
OTHER_RECORDS = ("runtimes/",)
"""Runtimes have records of their own."""
CHANGING = frozenset(("append", "add", "clear", "discard", "extend", "insert", "pop", "remove", "setdefault", "update"))
WITH_METHODS = ("story", "jobs", "waiting")
"""Objects that any component changes through their methods."""
LEDGER_WRITERS = {
    "allocate": {"allocation/allocations.py"},
    "actuate": {"actuation/actuator.py"},
    "actuate_pod": {"actuation/actuator.py"},
    "restart": {"actuation/restarts.py"},
    "forget": {"phases/finalizer.py", "agent.py"},
}
COLLABORATORS = 8


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def owners() -> dict[str, str]:
    """Field → the module that may assign it."""
    found: dict[str, str] = {}
    owner = ""
    text = (ROOT / RECORD).read_text()
    for line in text[text.index("class PodRecord") : text.index("def __post_init__")].splitlines():
        if section := re.match(r"    # --- (.+)", line):
            owner = section[1] if section[1].endswith(".py") else RECORD
        elif field := re.match(r"    (\w+): ", line):
            found[field[1]] = owner
    return found


def is_record(node: ast.expr) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name in ("record", "_record", "victim", "holder")


def field_of(node: ast.expr) -> str:
    """The record's field that an expression is, or is an element of."""
    while isinstance(node, (ast.Subscript, ast.Starred)):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) and is_record(node.value) else ""


def targets(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Assign(targets=found) | ast.Delete(targets=found):
            pass
        case ast.AugAssign(target=one) | ast.AnnAssign(target=one) | ast.For(target=one):
            found = [one]
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in CHANGING:
            found = [] if field_of(value) in WITH_METHODS else [value]
        case _:
            found = []
    for target in found:
        yield from target.elts if isinstance(target, (ast.Tuple, ast.List)) else (target,)


def writes(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        for target in targets(node):
            if name := field_of(target):
                yield name, node.lineno  # type: ignore[attr-defined]


def test_every_field_of_a_record_has_an_owner_that_exists() -> None:
    found = owners()
    assert found.keys() == {field.name for field in fields(PodRecord)}
    assert [owner for owner in set(found.values()) if not (ROOT / owner).is_file()] == []


def test_a_field_of_a_record_is_assigned_by_its_owner_only() -> None:
    found, foreign = owners(), list[str]()
    for module, tree in sources():
        if not module.startswith(OTHER_RECORDS):
            foreign += [
                f"{module}:{line} writes {name}, which {found[name]} owns"
                for name, line in writes(tree)
                if name in found and found[name] != module
            ]
    assert foreign == []


def test_every_owner_writes_what_it_owns() -> None:
    """A module that no longer writes a field is not its owner: its name in `record.py` is outdated."""
    written = {(module, name) for module, tree in sources() for name, _ in writes(tree)}
    given = {"uid", "pod", "story", "static"}
    never = {(owner, name) for name, owner in owners().items() if owner != RECORD and name not in given} - written
    assert never == set()


def test_the_check_finds_writes_in_every_form() -> None:
    source = """
record.a = 1
record.b, other = 1, 2
pod.record.c += 1
victim.d["x"] = 1
record.e.setdefault("x", {})
del record.f["x"]
self._record.g: int = 1
local.h = record.i
"""
    assert [name for name, _ in writes(ast.parse(source))] == ["a", "b", "c", "d", "f", "g", "e"]


def test_the_state_of_the_api_object_is_replaced_by_the_updates_only() -> None:
    callers = {
        module
        for module, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("with_status", "same_state")
    }
    assert callers - {RECORD} == {"roster/updates.py"}


def test_records_are_created_by_the_roster_only() -> None:
    makers = {
        module
        for module, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "PodRecord"
    }
    assert {module for module in makers if not module.startswith(OTHER_RECORDS)} == {"roster/roster.py"}


def test_allocated_and_actuated_sizes_have_one_writer_each() -> None:
    """As the table of the four states in docs/architecture.md says."""
    found: dict[str, set[str]] = {name: set() for name in LEDGER_WRITERS}
    for module, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in found:
                base = node.func.value
                name = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
                if name.lstrip("_") == "ledger":
                    found[node.func.attr].add(module)
    assert found == LEDGER_WRITERS


def test_the_documented_writers_of_the_four_states_are_the_real_ones() -> None:
    page = (ROOT.parents[2] / "docs" / "architecture.md").read_text()
    for state, method in [("Allocated", "allocate"), ("Actuated", "actuate")]:
        row = next(line for line in page.splitlines() if line.startswith(f"| {state} |"))
        (writer,) = LEDGER_WRITERS[method]
        assert f"`agent/{writer}`" in row.split("|")[4]


def test_no_constructor_takes_more_than_eight_collaborators() -> None:
    crowded: list[str] = []
    for module, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                count = len(node.args.args) - 1 + len(node.args.kwonlyargs)
                crowded += [f"{module}:{node.lineno} takes {count}"] if count > COLLABORATORS else []
    for module in ("build.py", "core.py", "phases/context.py"):
        for node in ast.walk(ast.parse((ROOT / module).read_text())):
            if isinstance(node, ast.ClassDef) and node.decorator_list:
                count = sum(isinstance(line, ast.AnnAssign) for line in node.body)
                crowded += [f"{module}: {node.name} has {count} parts"] if count > COLLABORATORS else []
    assert crowded == []


def test_no_callback_is_attached_to_an_object_after_its_construction() -> None:
    """A method or a function of one object is never assigned to an attribute of another."""
    attached: list[str] = []
    for module, tree in sources():
        functions = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Assign):
                continue
            own = isinstance(node.value, ast.Attribute) and ast.unparse(node.value.value) == "self"
            name = ast.unparse(node.value).removeprefix("self.") if own or isinstance(node.value, ast.Name) else ""
            for target in targets(node):
                outside = isinstance(target, ast.Attribute) and ast.unparse(target.value) not in ("self", "cls")
                if outside and (isinstance(node.value, ast.Lambda) or name in functions):
                    attached.append(f"{module}:{node.lineno} {ast.unparse(node)}")
    assert attached == []
