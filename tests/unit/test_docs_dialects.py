"""The page on dialects names a test for every sentence of the designs: each of them exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", (ROOT / "docs" / "dialects.md").read_text())


@pytest.mark.parametrize(("file", "test"), sorted(set(NAMED)))
def test_a_test_that_the_page_on_dialects_names_exists(file: str, test: str) -> None:
    source = (ROOT / "tests" / file).read_text()
    assert re.search(rf"^(async )?def {test}\(", source, re.MULTILINE), f"{file} has no {test}"
