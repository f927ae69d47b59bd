"""Revisions may contain any JSON: only data with the form of a template is treated as one."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.controllers.workloads.sets.history import template_of


@pytest.mark.parametrize("data", [None, 5, "x", [], {}, {"spec": 1}, {"spec": {"template": [1]}}, {"spec": None}])
def test_data_without_a_template_is_an_empty_template(data: Any) -> None:
    assert template_of({"data": data}) == {}


def test_the_patch_directive_is_not_a_part_of_the_template() -> None:
    assert template_of({"data": {"spec": {"template": {"$patch": "replace", "spec": {}}}}}) == {"spec": {}}
