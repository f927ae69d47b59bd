"""Finds the recorded behaviour of the vertical autoscaler and compares with the tolerances that its README states."""

from __future__ import annotations

import importlib.util
import json
import math
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
UPSTREAM = {"recommend-without-samples": True, "expire-samples-without-metrics": True, "miss-oom-kills": True}
"""The flags with which the recommender behaves like the recorded one."""
FOLDER = Path(os.environ.get("PODFIT_VECTORS") or ROOT.parent / "shared" / "vectors") / "vpa"


@cache
def _read(area: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted(FOLDER.glob(f"{area}*.json")):
        found += json.loads(path.read_text())["cases"]
    return found


def cases(area: str) -> list[Any]:
    """All cases of an area, or one skipped placeholder that says why there are none."""
    found = _read(area)
    if not found:
        reason = f"no {area}*.json in {FOLDER}"
        return [pytest.param({"name": "missing", "op": "missing"}, marks=pytest.mark.skip(reason=reason))]
    return list(found)


def cases_where(area: str, wanted: Callable[[dict[str, Any]], bool]) -> list[Any]:
    """The cases of an area that a test uses, or the placeholder."""
    found = cases(area)
    return [case for case in found if wanted(case)] if _read(area) else found


@cache
def trace_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vpa_tracegen", FOLDER / "tracegen.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def close(got: Any, expect: Any, relative: float = 1e-9) -> bool:
    """Whether values are equal except for the last bits of floating point numbers."""
    if isinstance(expect, bool) or isinstance(got, bool):
        return got is expect
    if isinstance(got, (int, float)) and isinstance(expect, (int, float)):
        return got == expect or math.isclose(got, expect, rel_tol=relative, abs_tol=0.0)
    if isinstance(expect, dict):
        return (
            isinstance(got, dict)
            and got.keys() == expect.keys()
            and all(close(got[k], expect[k], relative) for k in expect)
        )
    if isinstance(expect, list):
        return (
            isinstance(got, list)
            and len(got) == len(expect)
            and all(map(lambda g, e: close(g, e, relative), got, expect))
        )
    return bool(got == expect)


def difference(got: Any, expect: Any, path: str = "") -> str:
    """The place where two values first differ, for the message of a failing test."""
    if isinstance(got, dict) and isinstance(expect, dict):
        for key in sorted(got.keys() | expect.keys(), key=str):
            if key not in got or key not in expect:
                side = "expected" if key in expect else "got"
                return f"{path}.{key}: only {side}: {got.get(key, expect.get(key))!r:.400}"
            if not close(got[key], expect[key]):
                return difference(got[key], expect[key], f"{path}.{key}")
    if isinstance(got, list) and isinstance(expect, list):
        for index, (mine, theirs) in enumerate(zip(got, expect, strict=False)):
            if not close(mine, theirs):
                return difference(mine, theirs, f"{path}[{index}]")
        if len(got) != len(expect):
            return f"{path}: {len(got)} instead of {len(expect)} items: {got!r:.600} instead of {expect!r:.600}"
    return f"{path}: got {got!r:.600}, expected {expect!r:.600}"
