"""Small decisions in the processing of a write."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.objects import Object
from podfit.apiserver.writing.attempt import unchanged


def config_map(**changed: Any) -> Object:
    return {"metadata": {"name": "c", "managedFields": [{"manager": "m", "time": "1"}]}, "data": {"a": "1"}, **changed}


@pytest.mark.parametrize(
    "changed",
    [
        {"data": {"a": "2"}},
        {"data": None},
        {"immutable": True},
        {"metadata": {"name": "d", "managedFields": [{"manager": "m", "time": "1"}]}},
        {"metadata": {"name": "c", "managedFields": [{"manager": "n", "time": "1"}]}},
    ],
)
def test_whatever_differs_is_written(changed: Object) -> None:
    assert not unchanged(config_map(**changed), config_map())
    assert not unchanged(config_map(), config_map(**changed))


def test_a_new_time_of_the_same_owner_is_not_a_change_and_is_reverted() -> None:
    new = config_map(metadata={"name": "c", "managedFields": [{"manager": "m", "time": "2"}]})
    assert unchanged(new, config_map())
    assert new == config_map()
