"""Translates the Go cipher names of `--tls-ciphers` to those of OpenSSL. They apply to TLS 1.2 only."""

from __future__ import annotations

_OPENSSL = {
    f"TLS_ECDHE_{key}_WITH_{cipher}": f"ECDHE-{key}-{name}"
    for key in ("ECDSA", "RSA")
    for cipher, name in (
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
}


def openssl_list(text: str) -> str:
    """The OpenSSL names of the ciphers in a list separated by commas or colons; unknown names are dropped. If the
    result is empty, the default ciphers apply."""
    named = (part.strip() for part in text.replace(",", ":").split(":"))
    known = (_OPENSSL.get(name, name) for name in named)
    return ":".join(name for name in known if name in _OPENSSL.values())
