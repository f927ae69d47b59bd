"""Parsing of registries' authentication challenges, as real registries send them."""

from __future__ import annotations

import pytest

from podfit.images.registries.auth import Challenge, challenges
from podfit.images.registries.registry import is_loopback


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (
            'Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push"',
            [
                Challenge(
                    "bearer",
                    {
                        "realm": "https://auth.docker.io/token",
                        "service": "registry.docker.io",
                        "scope": "repository:a/b:pull,push",
                    },
                )
            ],
        ),
        ('Basic realm="x \\"y\\""', [Challenge("basic", {"realm": 'x "y"'})]),
        ("Basic", [Challenge("basic", {})]),
        (
            'BEARER Realm=abc , Basic realm="b"',
            [Challenge("bearer", {"realm": "abc"}), Challenge("basic", {"realm": "b"})],
        ),
        ("", []),
    ],
)
def test_challenges_are_read(header: str, found: list[Challenge]) -> None:
    assert challenges([header]) == found


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("localhost:5000", True),
        ("127.0.0.1:5000", True),
        ("127.8.9.1", True),
        ("[::1]:5000", True),
        ("docker.io", False),
        ("localhost.example.com", False),
        ("10.0.0.1:5000", False),
    ],
)
def test_only_registries_on_loopback_are_used_without_tls(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
