"""Registries over TLS: certificates are verified unless a registry is configured as insecure."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.containers.images import build
from tests.support.containers.registry import LoopbackRegistry

from podfit.images.errors import PullFailed
from podfit.images.references import parse
from podfit.images.registries import registry as client
from podfit.images.registries.pull import Puller
from podfit.images.store import ImageStore

APP = build([{"app": b"x"}], {"Cmd": ["/app"]})


def self_signed(folder: Path) -> ssl.SSLContext:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "nobody's")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(hours=1))
    file = folder / "tls.pem"
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    file.write_bytes(private + made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


@pytest.fixture
async def secure(tmp_path: Path) -> AsyncIterator[LoopbackRegistry]:
    async with LoopbackRegistry(self_signed(tmp_path)) as running:
        yield running


async def test_a_registry_on_loopback_may_use_https_with_any_certificate(
    secure: LoopbackRegistry, store: ImageStore
) -> None:
    assert (await Puller(store).pull(parse(secure.push("app:1", APP)))).id == APP.id


async def test_an_untrusted_certificate_is_refused_unless_the_registry_is_named_insecure(
    secure: LoopbackRegistry, store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "is_loopback", lambda host: False)
    monkeypatch.setenv("no_proxy", "*")
    name = secure.push("app:1", APP)
    with pytest.raises(PullFailed, match="the certificate of 127.0.0.1 cannot be verified: .*self-signed"):
        await Puller(store).pull(parse(name))
    assert secure.requests == []
    assert (await Puller(store, insecure=(secure.host,)).pull(parse(name))).id == APP.id


async def test_plain_http_is_not_used_elsewhere_unless_the_registry_is_named(
    registry: LoopbackRegistry, store: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "is_loopback", lambda host: False)
    monkeypatch.setenv("no_proxy", "*")
    name = registry.push("app:1", APP)
    with pytest.raises(PullFailed):
        await Puller(store).pull(parse(name))
    assert registry.requests == []
    assert (await Puller(store, insecure=(registry.host,)).pull(parse(name))).id == APP.id
