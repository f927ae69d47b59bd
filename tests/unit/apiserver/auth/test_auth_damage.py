"""Damaged keys: those that others depend on are rejected with instructions, those that can be reissued are reissued."""

from __future__ import annotations

from pathlib import Path

import pytest

from podfit.apiserver.auth.certs.pki import DamagedKeys, Pki

DAMAGE = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "garbage": lambda data: b"\x00\xffnothing" * 20,
    "another kind": lambda data: b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("file", ["ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.key"])
def test_a_damaged_authority_is_refused_and_left_alone(tmp_path: Path, file: str, damage: str) -> None:
    folder = tmp_path / "pki"
    Pki(folder)
    path = folder / file
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    before = {each.name: each.read_bytes() for each in folder.iterdir()}
    with pytest.raises(DamagedKeys) as refused:
        Pki(folder)
    assert f"{path} is damaged" in str(refused.value) and "Restore it from a copy" in str(refused.value)
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == before


def test_an_authority_without_its_key_is_refused(tmp_path: Path) -> None:
    Pki(tmp_path)
    (tmp_path / "ca.key").unlink()
    with pytest.raises(DamagedKeys, match="ca.key is damaged \\(it is missing\\)"):
        Pki(tmp_path)


def test_a_key_of_another_authority_is_refused(tmp_path: Path) -> None:
    Pki(tmp_path)
    (tmp_path / "ca.key").write_bytes((tmp_path / "front-proxy-ca.key").read_bytes())
    with pytest.raises(DamagedKeys, match="does not belong to ca.crt"):
        Pki(tmp_path)


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("file", ["apiserver.crt", "apiserver.key", "admin.crt", "admin.key"])
def test_a_damaged_certificate_is_issued_again(tmp_path: Path, file: str, damage: str) -> None:
    authority = Pki(tmp_path).ca
    path = tmp_path / file
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    again = Pki(tmp_path)
    assert again.ca == authority
    again.server_tls()
