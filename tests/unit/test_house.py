"""The structure of the source tree: small folders, short files, and names with one meaning."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "podfit"
GENERATED = "_pb2"
MOST_MODULES, LONGEST_OF_NINE_TENTHS = 9, 260


def modules() -> list[Path]:
    return [file for file in SOURCE.rglob("*.py") if GENERATED not in file.name]


def test_no_folder_has_more_than_nine_modules() -> None:
    counts: dict[Path, int] = {}
    for file in modules():
        if file.name != "__init__.py":
            counts[file.parent] = counts.get(file.parent, 0) + 1
    crowded = {str(folder.relative_to(SOURCE)): count for folder, count in counts.items() if count > MOST_MODULES}
    assert not crowded


def test_nine_files_in_ten_have_260_lines_at_most() -> None:
    lengths = sorted(len(file.read_text().splitlines()) for file in modules())
    assert lengths[int(len(lengths) * 0.9)] <= LONGEST_OF_NINE_TENTHS


OF_ONE_MEANING = frozenset(
    [
        "Actual",
        "Actuated",
        "Actuator",
        "Allocated",
        "Allocator",
        "Attempt",
        "BuiltParts",
        "DecodedObjects",
        "Desired",
        "Hub",
        "Ledger",
        "LimitsChange",
        "Object",
        "ObjectCache",
        "ObjectView",
        "PassQueue",
        "Plan",
        "PodContext",
        "PodRecord",
        "PodUpdates",
        "Progress",
        "ReferencedObjects",
        "Reporter",
        "Request",
        "Response",
        "Room",
        "Roster",
        "RuntimeEvent",
        "ServerCore",
        "Shortage",
        "Sized",
        "Sizes",
        "StatusWriter",
        "Stripped",
        "Verdict",
        "WatchEvent",
        "Watcher",
        "World",
    ]
)
"""Names with one meaning in all of podfit: those of a resize, and those that once had several meanings."""


def test_widely_used_names_have_one_meaning() -> None:
    found: dict[str, list[str]] = {}
    for file in modules():
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef) and node.name in OF_ONE_MEANING:
                found.setdefault(node.name, []).append(str(file.relative_to(SOURCE)))
    assert {name: files for name, files in found.items() if len(files) > 1} == {}
