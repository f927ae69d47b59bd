"""Checks of text that a client sends: decimal numbers of any length."""

from __future__ import annotations

import pytest

from podfit.api.text.formats import fits


@pytest.mark.parametrize("text", ["0", "7", "100", "0100", "0" * 5000 + "99"])
def test_numbers_up_to_the_most_fit(text: str) -> None:
    assert fits(text, 100)


@pytest.mark.parametrize("text", ["", "101", "9" * 5000, "-1", "+1", "1.0", " 1", "\u00b2", "\u0663"])
def test_larger_numbers_and_other_text_do_not(text: str) -> None:
    assert not fits(text, 100)


def test_no_number_fits_into_an_empty_list() -> None:
    assert not fits("0", -1)
