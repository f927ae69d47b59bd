"""Files and addresses in the options of components: invalid ones are rejected at the start."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from tests.support.servers.signing import new_request

from podfit.apiserver.auth.certs.certificates import Pair, PrivateKey, new_authority, new_key, subject
from podfit.cli.options.ports import ip_address
from podfit.cli.options.signing import certificate_in, signer_of
from podfit.compose import BadSetting


def written(folder: Path, pair: Pair, name: str = "ca") -> tuple[Path, Path]:
    cert, key = folder / f"{name}.crt", folder / f"{name}.key"
    cert.write_bytes(pair.cert)
    key.write_bytes(pair.key)
    return cert, key


def authority(key: PrivateKey) -> Pair:
    """A CA as other tools create it, with any kind of key."""
    now, name = datetime.now(UTC), subject("kubernetes")
    cert = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1)).add_extension(
        x509.BasicConstraints(True, None), True
    )
    made = cert.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pair(made.public_bytes(pem), private)


@pytest.mark.parametrize(
    "key",
    [
        ec.generate_private_key(ec.SECP256R1()),
        rsa.generate_private_key(65537, 2048),
        ed25519.Ed25519PrivateKey.generate(),
    ],
)
def test_an_authority_of_any_kind_signs(tmp_path: Path, key: PrivateKey) -> None:
    pair = authority(key)
    signer = signer_of(*written(tmp_path, pair))
    assert signer is not None
    usages = ["digital signature", "client auth"]
    signed = x509.load_pem_x509_certificate(signer(new_request("bob", [], new_key()), usages, None))
    signed.verify_directly_issued_by(x509.load_pem_x509_certificate(pair.cert))


def test_signing_needs_both_files_and_a_key_that_fits(tmp_path: Path) -> None:
    cert, key = written(tmp_path, new_authority("a", timedelta(days=1)))
    _, other = written(tmp_path, new_authority("b", timedelta(days=1)), "other")
    assert signer_of(None, None) is None
    for given, said in (
        ((cert, None), "go together"),
        ((None, key), "go together"),
        ((cert, other), "the key is not that of the certificate"),
        ((cert, tmp_path / "none"), "No such file"),
        ((key, cert), "--cluster-signing-cert-file"),
    ):
        with pytest.raises(BadSetting, match=said):
            signer_of(*given)


def test_a_file_without_a_certificate_is_rejected(tmp_path: Path) -> None:
    _, key = written(tmp_path, new_authority("a", timedelta(days=1)))
    assert certificate_in(None, "--root-ca-file") is None
    for path in (key, tmp_path / "none"):
        with pytest.raises(BadSetting, match="--root-ca-file"):
            certificate_in(path, "--root-ca-file")


def test_an_address_is_an_ip_address() -> None:
    assert [ip_address("--node-ip", text) for text in ("", "10.0.0.2", "fd00::1")] == ["", "10.0.0.2", "fd00::1"]
    with pytest.raises(BadSetting, match="--node-ip 'n2': it is an IP address"):
        ip_address("--node-ip", "n2")
