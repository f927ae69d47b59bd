"""Image references: what a name refers to, and which texts are invalid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.images.references import InvalidReference, Reference, parse

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.25", "docker.io/library/nginx:1.25"),
        ("team/app", "docker.io/team/app:latest"),
        ("docker.io/nginx", "docker.io/library/nginx:latest"),
        ("index.docker.io/library/nginx", "docker.io/library/nginx:latest"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/a/b_c:v1.2-rc.1", "localhost:5000/a/b_c:v1.2-rc.1"),
        ("[::1]:5000/app", "[::1]:5000/app:latest"),
        ("ghcr.io/team/app", "ghcr.io/team/app:latest"),
        (f"app@{DIGEST}", f"docker.io/library/app@{DIGEST}"),
        (f"app:1@{DIGEST}", f"docker.io/library/app:1@{DIGEST}"),
    ],
)
def test_a_short_name_is_expanded_to_a_full_reference(text: str, whole: str) -> None:
    assert str(parse(text)) == whole


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "invalid reference format"),
        ("a b", "invalid reference format"),
        ("x:", "invalid reference format"),
        ("-x", "invalid reference format"),
        ("../etc", "invalid reference format"),
        ("UPPER", "invalid reference format: repository name (UPPER) must be lowercase"),
        ("team/App", "invalid reference format: repository name (team/App) must be lowercase"),
        ("app@sha256:abc", "invalid reference format"),
        ("app@sha256:" + "0a" * 20, "invalid checksum digest length"),
        ("app@md5:" + "0a" * 16, "unsupported digest algorithm"),
        ("0a" * 32, f"invalid repository name ({'0a' * 32}), cannot specify 64-byte hexadecimal strings"),
        ("a" * 300, "repository name must not be more than 255 characters"),
    ],
)
def test_a_text_that_names_no_image_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidReference) as refusal:
        parse(text)
    assert str(refusal.value) == why


components = st.from_regex(r"[a-z0-9]+((\.|_|__|-)[a-z0-9]+)*", fullmatch=True).filter(lambda text: len(text) < 30)
registries = st.sampled_from(["docker.io", "ghcr.io", "localhost", "localhost:5000", "[::1]:80", "a.b-c.example:1"])
tags = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}", fullmatch=True)
digests = st.binary(min_size=32, max_size=32).map(lambda raw: f"sha256:{raw.hex()}")


@st.composite
def references(draw: st.DrawFn) -> Reference:
    path = "/".join(draw(st.lists(components, min_size=1, max_size=3)))
    registry = draw(registries)
    if registry == "docker.io" and "/" not in path:
        path = f"library/{path}"
    tag, digest = draw(st.one_of(st.just(""), tags)), draw(st.one_of(st.just(""), digests))
    return Reference(registry, path, tag or ("" if digest else "latest"), digest)


@given(references())
def test_a_reference_is_read_back_as_it_was_written(reference: Reference) -> None:
    assert parse(str(reference)) == reference


@given(st.text(max_size=80))
def test_any_text_is_a_reference_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except InvalidReference:
        return
    assert parse(str(found)) == found
    assert ".." not in found.repository.split("/") and "\0" not in str(found)
