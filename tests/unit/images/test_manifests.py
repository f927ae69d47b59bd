"""Manifests and configurations from untrusted sources."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.images.content.compression import unpacked
from podfit.images.content.manifests import Platform, choose, document, is_index, read_config, read_manifest
from podfit.images.errors import BrokenImage


def entry(number: int, **platform: str) -> dict[str, Any]:
    shown = {"platform": platform} if platform else {}
    return {"digest": f"sha256:{number:064x}", "size": number, **shown}


def chosen(wanted: Platform, *entries: dict[str, Any]) -> int:
    return choose({"manifests": list(entries)}, wanted).size


def test_the_best_variant_of_a_platform_is_chosen() -> None:
    arm = Platform("arm", variants=("v7", "v6", "v5"))
    five, six = (
        entry(5, os="linux", architecture="arm", variant="v5"),
        entry(6, os="linux", architecture="arm", variant="v6"),
    )
    eight = entry(8, os="linux", architecture="arm", variant="v8")
    assert chosen(arm, five, eight, six) == 6
    with pytest.raises(BrokenImage, match="linux/arm/v8"):
        chosen(arm, eight)


def test_attestations_and_other_systems_are_not_chosen() -> None:
    entries = entry(1, os="unknown", architecture="unknown"), entry(2, os="windows", architecture="amd64")
    assert chosen(Platform("amd64"), *entries, entry(3, os="linux", architecture="amd64")) == 3
    with pytest.raises(BrokenImage, match=r"\(it has windows/amd64\)"):
        chosen(Platform("amd64"), *entries)


def test_a_single_image_without_a_platform_is_for_all() -> None:
    assert chosen(Platform("amd64"), entry(1)) == 1


KEYS = ("config", "layers", "manifests", "digest", "size", "platform")
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_any_document_is_an_image_or_refused(value: Any) -> None:
    raw = json.dumps(value).encode()
    try:
        found = document(raw, "it")
        choose(found, Platform("amd64")) if is_index(found) else read_manifest(found)
    except BrokenImage:
        pass


@given(json_values.map(lambda value: {"config": value, "rootfs": {"diff_ids": value}}))
def test_any_configuration_is_read_or_refused(value: Any) -> None:
    try:
        read_config(json.dumps(value).encode())
    except BrokenImage:
        pass


@pytest.mark.skipif(importlib.util.find_spec("zstandard") is not None, reason="zstandard is installed")
def test_a_layer_that_needs_zstd_says_what_to_install(tmp_path: Path) -> None:
    file = tmp_path / "layer"
    file.write_bytes(b"\x28\xb5\x2f\xfd more")
    with pytest.raises(BrokenImage, match="zstandard"), unpacked(file):
        pass
