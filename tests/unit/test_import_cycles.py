"""No module imports itself through others, not even inside a function.

import-linter checks the same between the packages that its contract names; this test checks single modules, in all of
podfit.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def cycle(imports: dict[str, set[str]]) -> list[str]:
    """A cycle of imports, from a module back to it; [] if there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_of_podfit_imports_itself_by_way_of_others() -> None:
    graph = grimp.build_graph("podfit", exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 500
    assert cycle(imports) == []


@pytest.mark.parametrize(
    ("imports", "length"),
    [({"a": {"b"}, "b": {"c"}, "c": set()}, 0), ({"a": {"b"}, "b": {"a"}}, 3), ({"a": {"b"}, "b": {"b"}}, 2)],
)
def test_a_circle_is_found(imports: dict[str, set[str]], length: int) -> None:
    assert len(cycle(imports)) == length
