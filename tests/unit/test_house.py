"""The shape of the source tree: small folders and short files."""

from __future__ import annotations

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
