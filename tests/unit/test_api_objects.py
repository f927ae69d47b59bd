"""The types of objects are defined once, and shared objects are frozen in tests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import msgspec
import pytest

from podfit.api.objects import FREEZES, Object, SharedObjectChanged, freeze, thaw

ROOT = Path(__file__).parents[2]
POD: Object = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}


def test_object_is_an_alias_of_one_module() -> None:
    defined = [
        path.relative_to(ROOT).as_posix()
        for folder in ("src", "tests", "bench")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"^Object(View)?\b[^\n]*=", path.read_text(), re.M)
    ]
    assert len(defined) == 1, defined


def test_the_suite_freezes_what_is_shared() -> None:
    assert FREEZES


@pytest.mark.parametrize(
    "write",
    [
        lambda pod: pod.update(kind="Node"),
        lambda pod: pod["metadata"].pop("name"),
        lambda pod: pod["metadata"].setdefault("uid", ""),
        lambda pod: pod["spec"]["containers"].append({}),
        lambda pod: pod["spec"]["containers"][0].__setitem__("name", "d"),
    ],
)
def test_a_frozen_object_refuses_writes_wherever_they_go(write: Callable[[Object], object]) -> None:
    pod = freeze(POD)
    with pytest.raises(SharedObjectChanged):
        write(pod)
    assert pod == POD


def test_a_changed_copy_shares_what_was_frozen_before() -> None:
    pod = freeze(POD)
    other = freeze({**pod, "metadata": {"name": "q"}})
    assert other["spec"] is pod["spec"] and other["metadata"] == {"name": "q"}
    assert freeze(pod) is pod


def test_a_thawed_object_belongs_to_its_holder() -> None:
    for copied in (thaw(freeze(POD)), deepcopy(freeze(POD))):
        copied["spec"]["containers"].append({"name": "d"})
        assert len(POD["spec"]["containers"]) == 1


def test_a_frozen_object_passes_for_json() -> None:
    pod = freeze(POD)
    assert msgspec.json.encode(pod) == msgspec.json.encode(POD)
    assert json.loads(json.dumps(pod)) == POD
    assert pod.__class__ is dict and pod["spec"]["containers"].__class__ is list
