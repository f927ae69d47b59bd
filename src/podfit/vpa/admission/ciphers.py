"""Translates Go's cipher names in `--tls-ciphers` to OpenSSL's. They apply to TLS 1.2 only."""

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
    """Of a list with commas or colons, the ciphers that exist; empty if none does: then the defaults stay."""
    named = (part.strip() for part in text.replace(",", ":").split(":"))
    known = (_OPENSSL.get(name, name) for name in named)
    return ":".join(name for name in known if name in _OPENSSL.values())
