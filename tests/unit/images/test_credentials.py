"""Which credentials are tried for which image."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from podfit.images.references import parse
from podfit.images.registries.credentials import BadCredentials, Credentials, keyring_of


def secret(auths: dict[str, Any], kind: str = "kubernetes.io/dockerconfigjson") -> dict[str, Any]:
    key, document = (".dockerconfigjson", {"auths": auths}) if kind.endswith("json") else (".dockercfg", auths)
    data = {key: base64.b64encode(json.dumps(document).encode()).decode()}
    return {"metadata": {"name": "s"}, "type": kind, "data": data}


def tried(auths: dict[str, Any], image: str) -> list[str]:
    return [found.username for found in keyring_of([secret(auths)]).lookup(parse(image))]


def user(name: str) -> dict[str, str]:
    return {"username": name, "password": "p"}


@pytest.mark.parametrize(
    ("place", "image", "applies"),
    [
        ("ghcr.io", "ghcr.io/team/app", True),
        ("https://ghcr.io", "ghcr.io/team/app", True),
        ("https://ghcr.io/v2/", "ghcr.io/team/app", True),
        ("ghcr.io/team", "ghcr.io/team/app", True),
        ("ghcr.io/other", "ghcr.io/team/app", False),
        ("ghcr.io:443", "ghcr.io/team/app", False),
        ("*.example.com", "a.example.com/app", True),
        ("*.example.com", "a.b.example.com/app", False),
        ("*", "evil.example/app", False),
        ("localhost:5000", "localhost:5000/app", True),
        ("https://index.docker.io/v1/", "nginx", True),
        ("https://index.docker.io/v1/", "docker.io/team/app", True),
        ("https://index.docker.io/v1/", "ghcr.io/app", False),
        ("docker.io", "nginx", True),
    ],
)
def test_credentials_apply_to_their_registry_and_path(place: str, image: str, applies: bool) -> None:
    assert tried({place: user("u")}, image) == (["u"] if applies else [])


def test_the_most_specific_credentials_come_first() -> None:
    auths = {"ghcr.io": user("all"), "ghcr.io/team": user("team"), "ghcr.io/team/app": user("app")}
    assert tried(auths, "ghcr.io/team/app:1") == ["app", "team", "all"]


def test_an_encoded_pair_and_both_types_of_secret_are_read() -> None:
    auth = {"auth": base64.b64encode(b"me:pass:word").decode()}
    for kind in ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg"):
        (found,) = keyring_of([secret({"ghcr.io": auth}, kind)]).lookup(parse("ghcr.io/a"))
        assert found == Credentials("me", "pass:word", "ghcr.io")


def test_secrets_of_other_types_are_skipped() -> None:
    assert not keyring_of([{"type": "Opaque", "data": {".dockerconfigjson": "e30="}}])


@pytest.mark.parametrize("data", ["", "!", base64.b64encode(b"{").decode(), base64.b64encode(b"[]").decode()])
def test_a_damaged_secret_is_named_and_not_quoted(data: str) -> None:
    damaged = {**secret({}), "data": {".dockerconfigjson": data or base64.b64encode(b"hunter2").decode()}}
    with pytest.raises(BadCredentials) as refusal:
        keyring_of([damaged])
    assert "Secret s" in str(refusal.value) and "hunter2" not in str(refusal.value)


def test_a_password_is_not_printed() -> None:
    assert "hunter2" not in repr(Credentials("me", "hunter2"))
