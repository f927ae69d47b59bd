"""Text from the cluster is printed as text: none of its control characters reaches the terminal (CVE-2021-25743)."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from podfit.cli.printing.output import echo, note, print_object, visible

TEXTS = st.text(st.one_of(st.characters(), st.sampled_from("\x1b\x07\r\x7f\x9b\u202e\u2066\n\t[31m")))


def obeyed(text: str) -> list[str]:
    """Characters that a terminal acts on."""
    bidirectional = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    return [
        letter
        for letter in text
        if (unicodedata.category(letter) == "Cc" and letter not in "\n\t")
        or unicodedata.bidirectional(letter) in bidirectional
    ]


@given(TEXTS)
def test_no_text_moves_the_cursor_or_turns_the_order_of_letters(text: str) -> None:
    assert not obeyed(visible(text))


@given(st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs"))))
def test_an_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_an_escape_is_shown_as_terminals_show_it() -> None:
    assert visible("\x1b[31mred\r\x7f\x9b\u202e") == "^[[31mred^M^?\\u009b\\u202e"


@pytest.mark.parametrize("value", [{"a": "\x1b[2J\x9b1m\u202e\x7f"}, ["\x85\x00"]])
def test_json_and_yaml_hold_the_same_text_and_no_control_characters(
    value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for output, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        print_object(output, value)
        reported = capsys.readouterr().out
        assert not obeyed(reported)
        assert read(reported) == value


def test_answers_and_notes_are_both_made_visible(capsys: pytest.CaptureFixture[str]) -> None:
    echo("\x1b]0;title\x07")
    note("\x1b]0;title\x07")
    assert tuple(capsys.readouterr()) == ("^[]0;title^G\n", "^[]0;title^G\n")
