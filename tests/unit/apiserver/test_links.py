"""Links in proxied responses lead through the API server if they point to the target itself, and only then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.apiserver.proxying.links import Links, leading_through
from podfit.apiserver.request import Request

P = "/api/v1/namespaces/n/pods/p/proxy"
LINKS = Links(P, frozenset(("10.0.0.1:80", "localhost:8001")), "localhost:8001")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/next", f"{P}/next"),
        ("/folder/", f"{P}/folder/"),
        ("/", f"{P}/"),
        ("/a/../b?x=1#y", f"{P}/b?x=1#y"),
        ("http://10.0.0.1:80/next", f"{P}/next"),
        ("http://localhost:8001/next", f"http://localhost:8001{P}/next"),
        (f"{P}/there/already", f"{P}/there/already"),
        ("next", "next"),
        ("#here", "#here"),
        ("https://example.com/", "https://example.com/"),
        ("http://[broken", "http://[broken"),
    ],
)
def test_only_links_to_the_target_are_changed(url: str, expected: str) -> None:
    assert LINKS.link(url) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<a href="/x">t</a>', f'<a href="{P}/x">t</a>'),
        ("<IMG alt=/y SRC=/x>", f'<IMG alt=/y SRC="{P}/x">'),
        ("<a href='/x?a=1&amp;b'>t</a>", f'<a href="{P}/x?a=1&amp;b">t</a>'),
        (
            "<script src=/x>'<a href=\"/y\">'</script><a href=/z>",
            f"""<script src="{P}/x">'<a href="/y">'</script><a href="{P}/z">""",
        ),
        ('<!-- <a href="/x"> --><p title="/x">', '<!-- <a href="/x"> --><p title="/x">'),
        ('1 < 2 <a href="/x', '1 < 2 <a href="/x'),
    ],
)
def test_a_page_keeps_everything_else(page: str, expected: str) -> None:
    assert LINKS.page(page.encode()).decode() == expected


@given(
    st.text(alphabet="<>a!-/='\" hrefscipt\ud800é", max_size=80).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_a_page_without_links_to_the_target_stays_as_it_is(page: bytes) -> None:
    assert Links("", frozenset()).page(page.replace(b"/", b"")) == page.replace(b"/", b"")


def test_the_prefix_is_what_comes_before_the_targets_path() -> None:
    request = Request("GET", f"{P}/a b/", {}, {"host": "localhost:8001"}, b"")
    assert leading_through(request, "/a%20b/", "10.0.0.1:80") == LINKS
    assert LINKS.seen("/a%20b/") == f"{P}/a%20b/"
