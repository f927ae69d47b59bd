"""Evaluates the part of JSONPath that printer columns and scale paths use: .a.b, [0], [*], ['a.b'], [?(@.x=='y')].c"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from podfit.api.text.remember import remembered

_STEP = re.compile(
    r"""\.?\[\?\(\s*@((?:\.[\w-]+)+)\s*(==|!=)\s*(?:'([^']*)'|"([^"]*)"|([\w.-]+))\s*\)\]   # filter
      |\.?\[(-?[0-9]{1,18})\]                                                                # index
      |\.?\[\*\]                                                                             # all
      |\.?\[(?:'([^']*)'|"([^"]*)")\]                                                        # quoted key
      |\.((?:[\w$/-]|\\.)+)                                                                  # key
    """,
    re.VERBOSE,
)
Step = Callable[[list[Any]], list[Any]]


class BadPath(ValueError):
    """An unsupported path."""


@remembered(1024)
def parse(path: str) -> tuple[Step, ...]:
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[Step] = []
    at = 0
    while at < len(text):
        if text[at] == "." and text[at:] == ".":
            break
        found = _STEP.match(text, at)
        if found is None:
            raise BadPath(path)
        steps.append(_step(found))
        at = found.end()
    return tuple(steps)


def _step(found: re.Match[str]) -> Step:
    filtered, sign, single, double, bare, index, quoted, quoted2, key = found.groups()
    if filtered is not None:
        wanted = next(value for value in (single, double, bare) if value is not None)
        return _filter(tuple(filtered.strip(".").split(".")), sign == "==", wanted)
    if index is not None:
        return _index(int(index))
    name = next((value for value in (quoted, quoted2, key) if value is not None), None)
    if name is None:
        return _all
    return _key(name.replace("\\.", "."))


def _filter(path: tuple[str, ...], equal: bool, wanted: str) -> Step:
    def keep(item: Any) -> bool:
        for part in path:
            item = item.get(part) if isinstance(item, dict) else None
        return bool((_text(item) == wanted) == equal)

    return lambda values: [item for value in values if isinstance(value, list) for item in value if keep(item)]


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else json.dumps(value)


def _index(at: int) -> Step:
    return lambda values: [v[at] for v in values if isinstance(v, list) and -len(v) <= at < len(v)]


def _all(values: list[Any]) -> list[Any]:
    return [item for v in values if isinstance(v, (list, dict)) for item in (v if isinstance(v, list) else v.values())]


def _key(name: str) -> Step:
    return lambda values: [v[name] for v in values if isinstance(v, dict) and name in v]


def find(path: str, obj: Any) -> list[Any]:
    """All values at the path."""
    values = [obj]
    for step in parse(path):
        values = step(values)
    return values
