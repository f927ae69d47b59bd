"""Which dialect a namespace uses."""

from __future__ import annotations

import pytest

from podfit.api.resize.dialects import DESIGN_2020, DIALECTS, LABEL, NATIVE, dialect_of


@pytest.mark.parametrize("name", DIALECTS)
def test_a_namespace_chooses_its_dialect_by_label(name: str) -> None:
    assert dialect_of({LABEL: name}) == name


def test_without_a_known_label_the_default_of_the_server_holds() -> None:
    assert dialect_of(None) == NATIVE and dialect_of({}, DESIGN_2020) == DESIGN_2020
    assert dialect_of({LABEL: "1999"}, DESIGN_2020) == DESIGN_2020
